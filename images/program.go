package images

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// program to put into an image.
type program struct {
	content []byte
	sha256  string
}

func readProgram(name string, open func() (io.ReadCloser, error)) (*program, error) {
	r, err := open()
	if err != nil {
		return nil, fmt.Errorf("image build: program %s: %w", name, err)
	}
	content, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, fmt.Errorf("image build: program %s: %w", name, err)
	}
	if err := checkStatic(content); err != nil {
		return nil, fmt.Errorf("image build: program %s (%d bytes): %w", name, len(content), err)
	}
	sum := sha256.Sum256(content)
	return &program{content, hex.EncodeToString(sum[:])}, nil
}

// checkStatic refuses a program that would not start in an initramfs, which has no dynamic linker:
// the kernel would only say "Failed to execute /init (error -2)".
func checkStatic(content []byte) error {
	f, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("not a program: %w", err)
	}
	if f.Machine != elf.EM_X86_64 {
		return fmt.Errorf("a program for %s, want %s", f.Machine, elf.EM_X86_64)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("linked dynamically; build it with CGO_ENABLED=0")
		}
	}
	return nil
}
