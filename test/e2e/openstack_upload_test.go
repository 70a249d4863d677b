//go:build e2e

package e2e

import "strings"

// slowly uploads an image in two chunks with a pause between them, as nova-compute does that of a
// guest which it reads from a slow disk, and prints the status of the upload, and of the image with
// its size.
const slowly = `
import http.client, json, sys, time
address, token, pause = sys.argv[1], sys.argv[2], float(sys.argv[3])
def ask(method, path, body=None, **headers):
    c = http.client.HTTPConnection(address, 9292, timeout=180)
    c.request(method, "/v2/images" + path, body, {"X-Auth-Token": token, **{k.replace("_", "-"): v for k, v in headers.items()}},
              encode_chunked="Transfer_Encoding" in headers)
    r = c.getresponse()
    return r.status, r.read()
def chunks():
    yield b"x" * 65536
    time.sleep(pause)
    yield b"y" * 65536
image = json.loads(ask("POST", "", json.dumps({"name": "slow", "disk_format": "raw", "container_format": "bare"}),
                       Content_Type="application/json")[1])["id"]
status, _ = ask("PUT", "/" + image + "/file", chunks(), Content_Type="application/octet-stream", Transfer_Encoding="chunked")
made = json.loads(ask("GET", "/" + image)[1])
ask("DELETE", "/" + image)
print(status, made["status"], made["size"])
`

// slowUpload: nothing comes for longer than uWSGI's time-out of sockets, 60 seconds in Glance's
// uwsgi.ini.
func slowUpload(l *Lab, node string) {
	address := l.Kubectl("get", "openstackcluster", "lab", "-o", "jsonpath={.spec.address}")
	token := strings.TrimSpace(l.Seed("regiond", "openstack", "--", "token", "issue", "-f", "value", "-c", "id"))
	out := l.Run("lab", "exec", "--lab", l.name, "--node", node, "--", "python3", "-c", slowly, address, token, "70")
	if got, want := strings.TrimSpace(out), "204 active 131072"; got != want {
		l.Errorf("an upload with a pause of 70 s: got %q, want %q", got, want)
	}
}
