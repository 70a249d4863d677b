-- The service itself may not change its tables; the schema's user does that, in Jobs only.
CREATE USER IF NOT EXISTS 'nova'@'%' IDENTIFIED BY '{{ .nova.database.password }}';
ALTER USER 'nova'@'%' IDENTIFIED BY '{{ .nova.database.password }}';
CREATE USER IF NOT EXISTS 'nova_schema'@'%' IDENTIFIED BY '{{ .nova.database.schema_password }}';
ALTER USER 'nova_schema'@'%' IDENTIFIED BY '{{ .nova.database.schema_password }}';
GRANT SELECT, INSERT, UPDATE, DELETE, CREATE TEMPORARY TABLES ON nova.* TO 'nova'@'%';
GRANT ALL ON nova.* TO 'nova_schema'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE, CREATE TEMPORARY TABLES ON nova_api.* TO 'nova'@'%';
GRANT ALL ON nova_api.* TO 'nova_schema'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE, CREATE TEMPORARY TABLES ON nova_cell0.* TO 'nova'@'%';
GRANT ALL ON nova_cell0.* TO 'nova_schema'@'%';
