CREATE DATABASE keystone CHARACTER SET utf8mb4; USE keystone;
CREATE TABLE t (id int primary key auto_increment, a text, b blob, j json) ; INSERT INTO t (a,b,j) VALUES ('x\ny',0x00ff0a,'{"a":1}'),("it's (",null,null),('\n(1);','z',null);
CREATE TABLE empty1 (id int);
CREATE TABLE nopk (v varchar(10)); INSERT INTO nopk VALUES ('a'),('b');
CREATE USER 'keystone'@'%' IDENTIFIED BY 'secret'; GRANT ALL ON keystone.* TO 'keystone'@'%';
CREATE USER 'regiond'@'%' IDENTIFIED BY 's2'; GRANT CREATE USER, CONNECTION ADMIN, PROCESS ON *.* TO 'regiond'@'%'; GRANT ALL ON keystone.* TO 'regiond'@'%' WITH GRANT OPTION;
CREATE DATABASE glance;
