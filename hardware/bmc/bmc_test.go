package bmc_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"regiond.dev/regiond/hardware/bmc"
	"regiond.dev/regiond/hardware/fingerprint"
	"regiond.dev/regiond/region"
)

func TestClass(t *testing.T) {
	for _, c := range []struct {
		err     error
		want    bmc.Policy
		refused bool
	}{
		{&bmc.Error{Policy: bmc.Terminal}, bmc.Terminal, false},
		{&bmc.Error{Policy: bmc.Terminal, Reason: region.ReasonAuthenticationFailed}, bmc.Terminal, true},
		{fmt.Errorf("open: %w", &bmc.Error{Policy: bmc.Terminal, Reason: region.ReasonPrivilegeInsufficient}), bmc.Terminal, true},
		{&bmc.Error{Policy: bmc.Retry, Reason: region.ReasonAuthenticationFailed}, bmc.Retry, false},
		{&bmc.Error{Policy: bmc.Terminal, Reason: region.ReasonUnsupportedByBMC}, bmc.Terminal, false},
		{fmt.Errorf("wrapped: %w", &bmc.Error{Policy: bmc.Wait}), bmc.Wait, false},
		{context.DeadlineExceeded, bmc.Retry, false},
		{&net.OpError{Op: "read", Err: errors.New("no route to host")}, bmc.Retry, false},
		{errors.New("anything"), bmc.Retry, false},
		{nil, bmc.Retry, false},
	} {
		if got, refused := bmc.Class(c.err), bmc.Refused(c.err); got != c.want || refused != c.refused {
			t.Errorf("%v: %s, refused %v, want %s, %v", c.err, got, refused, c.want, c.refused)
		}
	}
}

func TestGUIDByteOrders(t *testing.T) {
	const text = "6f1c2a3b-4d5e-4f60-8192-a3b4c5d6e7f8" // version 4, valid in one order only
	for _, order := range []bmc.ByteOrder{bmc.OrderSMBIOS, bmc.OrderRFC4122, bmc.OrderIPMI} {
		guid, err := bmc.UUIDToGUID(text, order)
		if err != nil {
			t.Fatal(err)
		}
		got, gotOrder := bmc.GUIDToUUID(guid)
		// What is read wrongly must still compare as the same system.
		if !fingerprint.SameUUID(got, text) {
			t.Errorf("%s: read as %s (%s), not the same as %s", order, got, gotOrder, text)
		}
		if order == bmc.OrderSMBIOS && got != text {
			t.Errorf("SMBIOS order read as %s", got)
		}
	}
	// What SMBIOS stores for 00112233-4455-6677-8899-aabbccddeeff, the example of its section 7.2.1.
	guid, err := bmc.UUIDToGUID("00112233-4455-6677-8899-aabbccddeeff", bmc.OrderSMBIOS)
	want := [16]byte{0x33, 0x22, 0x11, 0x00, 0x55, 0x44, 0x77, 0x66, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}
	if err != nil || guid != want {
		t.Errorf("%x, %v", guid, err)
	}
	if got, _ := bmc.GUIDToUUID([16]byte{}); got != "" {
		t.Errorf("unset GUID reads %q", got)
	}
	if _, err := bmc.UUIDToGUID("6f1c2a3b4d5e4f608192a3b4c5d6e7f8", bmc.OrderSMBIOS); err == nil {
		t.Error("UUID without hyphens was accepted")
	}
}
