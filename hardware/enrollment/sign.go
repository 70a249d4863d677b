package enrollment

import (
	"context"
	"errors"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"regiond.dev/regiond/hardware/hostkey"
	"regiond.dev/regiond/machine/enroll"
)

// signPoll is how often Kubernetes is asked whether a certificate was signed.
const signPoll = 200 * time.Millisecond

// sign has Kubernetes sign a host's request (signer kubernetes.io/kube-apiserver-client, by the
// controller manager). That signer approves nothing by itself; regiond does, having checked who asks.
func (s *Server) sign(ctx context.Context, owner client.Object, csrPEM []byte, key string) (string, error) {
	fail := func(err error) (string, error) {
		return "", fmt.Errorf("host %s: sign its certificate: %w", owner.GetName(), err)
	}
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "regiond-host-" + owner.GetName() + "-" + key[:8] + "-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:           csrPEM,
			SignerName:        certificatesv1.KubeAPIServerClientSignerName,
			ExpirationSeconds: seconds(hostkey.Validity),
			Usages:            []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}
	if err := controllerutil.SetControllerReference(owner, csr, s.Client.Scheme()); err != nil {
		return fail(err)
	}
	if err := s.Client.Create(ctx, csr); err != nil {
		return fail(err)
	}
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "HostVerified",
		Message: "regiond verified the host's token, certificate or recorded key, and its system UUID if regiond installed it"})
	if err := s.Client.SubResource("approval").Update(ctx, csr); err != nil {
		return fail(err)
	}
	err := wait.PollUntilContextTimeout(ctx, signPoll, s.SignTimeout, true, func(ctx context.Context) (bool, error) {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(csr), csr); err != nil {
			return false, err
		}
		for _, c := range csr.Status.Conditions {
			if c.Type == certificatesv1.CertificateFailed || c.Type == certificatesv1.CertificateDenied {
				return false, fmt.Errorf("%s: %s: %s", c.Type, c.Reason, c.Message)
			}
		}
		return len(csr.Status.Certificate) > 0, nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return "", refusal(enroll.ReasonUnavailable, "Kubernetes has not signed the certificate within %s; is kube-controller-manager running? try again", s.SignTimeout)
	}
	if err != nil {
		return fail(err)
	}
	return string(csr.Status.Certificate), nil
}

func seconds(d time.Duration) *int32 {
	n := int32(d / time.Second)
	return &n
}
