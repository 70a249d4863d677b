-- The service itself may not change its tables; the schema's user does that, in Jobs only.
CREATE USER IF NOT EXISTS 'neutron'@'%' IDENTIFIED BY '{{ .neutron.database.password }}';
ALTER USER 'neutron'@'%' IDENTIFIED BY '{{ .neutron.database.password }}';
CREATE USER IF NOT EXISTS 'neutron_schema'@'%' IDENTIFIED BY '{{ .neutron.database.schema_password }}';
ALTER USER 'neutron_schema'@'%' IDENTIFIED BY '{{ .neutron.database.schema_password }}';
GRANT SELECT, INSERT, UPDATE, DELETE, CREATE TEMPORARY TABLES ON neutron.* TO 'neutron'@'%';
GRANT ALL ON neutron.* TO 'neutron_schema'@'%';
