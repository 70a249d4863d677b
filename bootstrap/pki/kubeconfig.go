package pki

import (
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig describes a client of the API server.
type Kubeconfig struct {
	// Server is the API server's URL.
	Server string
	// Cluster and User name the entries, as kubectl config shows them.
	Cluster, User string
	// Pair is the client's certificate and key.
	Pair Pair
	// Embed embeds certificate and key into the file, so that it can be copied to another machine.
	// Otherwise the file points to them, and a running client notices their renewal.
	Embed bool
}

// WriteKubeconfig writes a kubeconfig (mode 0600) whose client trusts this authority.
func (a *Authority) WriteKubeconfig(path string, k Kubeconfig) error {
	user := &clientcmdapi.AuthInfo{ClientCertificate: k.Pair.CertFile, ClientKey: k.Pair.KeyFile}
	if k.Embed {
		cert, err := os.ReadFile(k.Pair.CertFile)
		if err != nil {
			return fmt.Errorf("kubeconfig %s: %w", path, err)
		}
		key, err := os.ReadFile(k.Pair.KeyFile)
		if err != nil {
			return fmt.Errorf("kubeconfig %s: %w", path, err)
		}
		user = &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[k.Cluster] = &clientcmdapi.Cluster{Server: k.Server, CertificateAuthorityData: a.CertificatePEM()}
	config.AuthInfos[k.User] = user
	context := k.User + "@" + k.Cluster
	config.Contexts[context] = &clientcmdapi.Context{Cluster: k.Cluster, AuthInfo: k.User}
	config.CurrentContext = context
	content, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("encoding kubeconfig %s: %w", path, err)
	}
	return writeFile(path, content)
}
