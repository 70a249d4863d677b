package ipmi

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/bougou/go-ipmi/pkg/command/app"
	"github.com/bougou/go-ipmi/pkg/types"

	"regiond.dev/regiond/hardware/bmc"
	"regiond.dev/regiond/region"
)

// Probe asks the BMC for what it is and for the chassis it sits in. Only Get Device ID must work; what a BMC does
// not know of its chassis stays empty.
func (b *BMC) Probe(ctx context.Context) (bmc.Info, error) {
	var id app.GetDeviceIDResponse
	if err := b.do(ctx, "read device ID", &app.GetDeviceIDRequest{}, &id); err != nil {
		return bmc.Info{}, err
	}
	info := bmc.Info{
		FirmwareVersion: fmt.Sprintf("%d.%02d", id.MajorFirmwareRevision, id.MinorFirmwareRevision),
		ManufacturerID:  id.ManufacturerID,
		ProductID:       id.ProductID,
	}
	var err error
	if info.SystemUUID, err = b.systemUUID(ctx); err != nil {
		return bmc.Info{}, err
	}
	fru, err := b.readFRU(ctx)
	if err != nil {
		return bmc.Info{}, err
	}
	info.Manufacturer = cmp.Or(fru.product.manufacturer, fru.board.manufacturer)
	info.Product = cmp.Or(fru.product.name, fru.board.name)
	// Board and chassis have serial numbers of their own, which SMBIOS keeps apart too: they are not the system's.
	info.SerialNumber = fru.product.serial
	info.AssetTag = fru.product.assetTag
	info.BoardSerialNumber = fru.board.serial
	info.ChassisSerialNumber = fru.chassis.serial
	info.CipherSuite = b.cipherSuite()
	info.Quirks = b.Quirks()
	return info, nil
}

// cipherSuite is the suite that worked last.
func (b *BMC) cipherSuite() int {
	b.mutex <- struct{}{}
	defer b.release()
	return int(b.suite)
}

// systemUUID is empty for BMCs without Get System GUID (section 22.14), which is optional.
func (b *BMC) systemUUID(ctx context.Context) (string, error) {
	var r app.GetSystemGUIDResponse
	err := b.do(ctx, "read system GUID", &app.GetSystemGUIDRequest{}, &r)
	if answered(err) {
		b.quirk("does not tell the system GUID")
		return "", nil
	}
	if err != nil {
		return "", err
	}
	uuid, order := bmc.GUIDToUUID(r.GUID)
	if order != bmc.OrderSMBIOS {
		b.quirk(fmt.Sprintf("system GUID is in %s byte order", order))
	}
	return uuid, nil
}

// answered says whether the BMC itself declined, in contrast to everything that may be better the next time.
func answered(err error) bool {
	code := types.CompletionCode(0)
	if !errors.As(err, &code) {
		return false
	}
	policy, reason := classOfCompletionCode(code)
	return reason == region.ReasonUnsupportedByBMC || reason == region.ReasonProtocolError || policy == bmc.Retry && code == types.CodeNotSupported
}
