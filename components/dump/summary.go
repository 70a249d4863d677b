// Package dump takes dumps of the databases of OpenStack clusters for backups, and makes databases of
// them. A dump is logical (mariadb-dump) and of one moment: users read and write meanwhile. What is
// restored is read back and compared with the dump, table by table.
package dump

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"regexp"
	"slices"
)

// Table is what a dump has of a table.
type Table struct {
	Rows int64 `json:"rows"`
	// Definition is the SHA-256 of its CREATE TABLE statement, in hex, without the counter of
	// AUTO_INCREMENT, which a server may set forth.
	Definition string `json:"definition"`
}

// Summary of a dump: its tables by DATABASE.TABLE.
type Summary map[string]Table

// Differences between what was dumped and what is there, in words for people, at most ten.
func (s Summary) Differences(got Summary) []string {
	all := maps.Clone(s)
	maps.Copy(all, got)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		want, wanted := s[name]
		found, there := got[name]
		switch {
		case !there:
			out = append(out, fmt.Sprintf("table %s is missing", name))
		case !wanted:
			out = append(out, fmt.Sprintf("table %s is not in the backup", name))
		case want.Definition != found.Definition:
			out = append(out, fmt.Sprintf("table %s has another definition", name))
		case want.Rows != found.Rows:
			out = append(out, fmt.Sprintf("table %s has %d rows, the backup %d", name, found.Rows, want.Rows))
		}
	}
	if more := len(out) - 10; more > 0 {
		out = append(out[:10], fmt.Sprintf("and %d more", more))
	}
	return out
}

// Rows of all tables.
func (s Summary) Rows() (n int64) {
	for _, t := range s {
		n += t.Rows
	}
	return n
}

// maxLine bounds what is kept of a line in bytes: rows may be long, and only their beginnings matter.
// Lines of definitions are shorter.
const maxLine = 64 << 10

var (
	useLine     = regexp.MustCompile("^USE `(.*)`;$")
	createLine  = regexp.MustCompile("^CREATE TABLE `(.*)` \\($")
	insertLine  = regexp.MustCompile("^INSERT INTO `(.*)` VALUES(.*)$")
	counter     = regexp.MustCompile(` AUTO_INCREMENT=[0-9]+`)
	completed   = []byte("-- Dump completed")
	definedLine = []byte(")")
	rowLine     = []byte("(")
)

// reader of a dump is written the dump, as mariadb-dump prints it: one statement, or one row of an
// INSERT, in a line.
type reader struct {
	summary  Summary
	database string
	// table that is being defined, with its statement so far.
	defining string
	hash     hash.Hash
	// inserting is the table whose rows follow.
	inserting string
	// complete: the last line said so.
	complete bool
	line     []byte
	err      error
}

func newReader() *reader { return &reader{summary: Summary{}} }

// Write takes the next part of the dump.
func (r *reader) Write(p []byte) (int, error) {
	n := len(p)
	for r.err == nil {
		at := bytes.IndexByte(p, '\n')
		part := p
		if at >= 0 {
			part = p[:at]
		}
		r.line = append(r.line, part[:min(len(part), maxLine-len(r.line))]...)
		if at < 0 {
			break
		}
		r.err = r.end()
		r.line, p = r.line[:0], p[at+1:]
	}
	return n, r.err
}

// end of a line.
func (r *reader) end() error {
	line := r.line
	if len(line) == 0 {
		return nil
	}
	r.complete = bytes.HasPrefix(line, completed)
	if r.inserting != "" && bytes.HasPrefix(line, rowLine) {
		t := r.summary[r.inserting]
		t.Rows++
		r.summary[r.inserting] = t
		return nil
	}
	r.inserting = ""
	if r.defining != "" {
		r.hash.Write(counter.ReplaceAll(line, nil)) // does not fail (hash.Hash)
		r.hash.Write([]byte{'\n'})
		if bytes.HasPrefix(line, definedLine) {
			r.summary[r.defining] = Table{Definition: hex.EncodeToString(r.hash.Sum(nil))}
			r.defining = ""
		}
		return nil
	}
	if m := useLine.FindSubmatch(line); m != nil {
		r.database = string(m[1])
	} else if m := createLine.FindSubmatch(line); m != nil {
		r.defining, r.hash = r.database+"."+string(m[1]), sha256.New()
	} else if m := insertLine.FindSubmatch(line); m != nil {
		r.inserting = r.database + "." + string(m[1])
		if _, defined := r.summary[r.inserting]; !defined || len(m[2]) > 0 {
			return fmt.Errorf("dump of %s: a statement that this regiond does not know: %.80q", r.inserting, line)
		}
	}
	return nil
}

// Summary of what was written. A dump that was cut off is an error.
func (r *reader) result() (Summary, error) {
	if r.err == nil && !r.complete {
		r.err = fmt.Errorf("the dump was cut off: its last line is not %q", completed)
	}
	return r.summary, r.err
}
