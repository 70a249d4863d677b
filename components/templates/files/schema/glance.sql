-- The service itself may not change its tables; the schema's user does that, in Jobs only.
CREATE USER IF NOT EXISTS 'glance'@'%' IDENTIFIED BY '{{ .glance.database.password }}';
ALTER USER 'glance'@'%' IDENTIFIED BY '{{ .glance.database.password }}';
CREATE USER IF NOT EXISTS 'glance_schema'@'%' IDENTIFIED BY '{{ .glance.database.schema_password }}';
ALTER USER 'glance_schema'@'%' IDENTIFIED BY '{{ .glance.database.schema_password }}';
GRANT SELECT, INSERT, UPDATE, DELETE, CREATE TEMPORARY TABLES ON glance.* TO 'glance'@'%';
GRANT ALL ON glance.* TO 'glance_schema'@'%';
