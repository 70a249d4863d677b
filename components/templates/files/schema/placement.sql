-- The service itself may not change its tables; the schema's user does that, in Jobs only.
CREATE USER IF NOT EXISTS 'placement'@'%' IDENTIFIED BY '{{ .placement.database.password }}';
ALTER USER 'placement'@'%' IDENTIFIED BY '{{ .placement.database.password }}';
CREATE USER IF NOT EXISTS 'placement_schema'@'%' IDENTIFIED BY '{{ .placement.database.schema_password }}';
ALTER USER 'placement_schema'@'%' IDENTIFIED BY '{{ .placement.database.schema_password }}';
GRANT SELECT, INSERT, UPDATE, DELETE, CREATE TEMPORARY TABLES ON placement.* TO 'placement'@'%';
GRANT ALL ON placement.* TO 'placement_schema'@'%';
