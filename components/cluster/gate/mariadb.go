package gate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"time"

	"github.com/go-sql-driver/mysql"
)

// probeDatabase is regiond's own.
const probeDatabase = "regiond"

// MariaDB writes a row and reads it back over another connection, which sees only what was committed.
func MariaDB(ctx context.Context, t Target) (err error) {
	db, err := t.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	value := nonce()
	for _, s := range []struct {
		text string
		args []any
	}{
		{text: "CREATE DATABASE IF NOT EXISTS " + probeDatabase},
		{text: "CREATE TABLE IF NOT EXISTS " + probeDatabase + ".probe (cluster VARCHAR(64) PRIMARY KEY, value VARCHAR(64) NOT NULL)"},
		{text: "REPLACE INTO " + probeDatabase + ".probe (cluster, value) VALUES (?, ?)", args: []any{t.UID, value}},
	} {
		if _, err := db.ExecContext(ctx, s.text, s.args...); err != nil {
			return fmt.Errorf("mariadb %s: write a row: %w", t.MariaDB, err)
		}
	}
	var read string
	if err := db.QueryRowContext(ctx, "SELECT value FROM "+probeDatabase+".probe WHERE cluster = ?", t.UID).Scan(&read); err != nil {
		return fmt.Errorf("mariadb %s: read a row: %w", t.MariaDB, err)
	}
	if _, err := db.ExecContext(ctx, "DELETE FROM "+probeDatabase+".probe WHERE cluster = ?", t.UID); err != nil {
		return fmt.Errorf("mariadb %s: delete a row: %w", t.MariaDB, err)
	}
	return expect("mariadb "+t.MariaDB, value, read)
}

// open opens the server, every statement over a connection of its own.
func (t Target) open() (*sql.DB, error) {
	c := mysql.NewConfig()
	c.Net, c.Addr, c.User, c.Passwd = "tcp", t.MariaDB, t.Database.User, t.Database.Password
	c.Timeout, c.ReadTimeout, c.WriteTimeout = 5*time.Second, 20*time.Second, 20*time.Second
	c.InterpolateParams = true            // one round trip for a statement with values
	c.Logger = log.New(io.Discard, "", 0) // errors are returned as well
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("mariadb %s: %w", t.MariaDB, err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxIdleConns(-1)
	return db, nil
}

// cells that Nova needs: the one for servers that were never scheduled, and one with hosts.
const cell0 = "00000000-0000-0000-0000-000000000000"

// cells reads how many cells are mapped. Nova has no API for that.
func (t Target) cells(ctx context.Context) (zero, others int, err error) {
	db, err := t.open()
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	const query = "SELECT COALESCE(SUM(uuid = ?), 0), COALESCE(SUM(uuid <> ? AND disabled = 0), 0) FROM nova_api.cell_mappings"
	if err := db.QueryRowContext(ctx, query, cell0, cell0).Scan(&zero, &others); err != nil {
		return 0, 0, fmt.Errorf("mariadb %s: cells of nova: %w", t.MariaDB, err)
	}
	return zero, others, nil
}
