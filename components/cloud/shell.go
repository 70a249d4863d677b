package cloud

import (
	"fmt"
	"strings"
)

// Shell returns a script for a POSIX shell to source that sets the environment by which OpenStack's
// clients and libraries log in.
func (c Credentials) Shell() string {
	var b strings.Builder
	for _, v := range [][2]string{
		{"OS_AUTH_URL", c.URL + "/v3"}, {"OS_IDENTITY_API_VERSION", "3"}, {"OS_USERNAME", c.User}, {"OS_PASSWORD", c.Password},
		{"OS_PROJECT_NAME", c.Project}, {"OS_USER_DOMAIN_NAME", "Default"}, {"OS_PROJECT_DOMAIN_NAME", "Default"},
	} {
		fmt.Fprintf(&b, "export %s='%s'\n", v[0], strings.ReplaceAll(v[1], "'", `'\''`))
	}
	return b.String()
}
