// Package httpboot serves everything of a netboot that follows the boot loader: iPXE's scripts,
// the installer's kernel and initramfs, a ticket for one machine and one job, and the chunks of
// images.
//
// Requests are matched exactly. There are no directory listings and no redirects: UEFI's HTTP
// client and iPXE stumble over a 301 for a double slash (tinkerbell/smee#229), which is why
// http.ServeMux, which cleans paths by redirecting, is not used.
package httpboot
