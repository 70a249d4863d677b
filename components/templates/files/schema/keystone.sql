-- The service itself may not change its tables; the schema's user does that, in Jobs only.
CREATE USER IF NOT EXISTS 'keystone'@'%' IDENTIFIED BY '{{ .keystone.database.password }}';
ALTER USER 'keystone'@'%' IDENTIFIED BY '{{ .keystone.database.password }}';
CREATE USER IF NOT EXISTS 'keystone_schema'@'%' IDENTIFIED BY '{{ .keystone.database.schema_password }}';
ALTER USER 'keystone_schema'@'%' IDENTIFIED BY '{{ .keystone.database.schema_password }}';
GRANT SELECT, INSERT, UPDATE, DELETE, CREATE TEMPORARY TABLES ON keystone.* TO 'keystone'@'%';
GRANT ALL ON keystone.* TO 'keystone_schema'@'%';
