package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// errDeclined ends a command that the operator did not want after all.
var errDeclined = refused(errors.New("it was not approved; nothing was changed"))

// approve asks on a terminal for a "yes". Without a terminal nobody can answer, and nothing is
// done.
func approve(in io.Reader, out io.Writer, question string) error {
	f, isFile := in.(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) {
		return invalid(errors.New("standard input is not a terminal; pass --yes to go on without confirmation"))
	}
	return ask(in, out, question, "yes")
}

// ask for an answer; any other is errDeclined.
func ask(in io.Reader, out io.Writer, question, answer string) error {
	if _, err := fmt.Fprintf(out, "\n%s Type %q to continue: ", question, answer); err != nil {
		return err
	}
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if strings.TrimSpace(line) != answer {
		return errDeclined
	}
	return nil
}
