// SPDX-License-Identifier: Apache-2.0

// What Kubernetes runs on a node as one program, so that what its parts share is compiled and linked once, beside the kubectl by which
// people look at it. The name under which it is called says which part runs: kubelet, kube-proxy or kubectl.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	name := filepath.Base(os.Args[0])
	command, found := map[string]func() *cobra.Command{
		"kubelet":    func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
		"kube-proxy": proxy.NewProxyCommand,
	}[name]
	if !found {
		fmt.Fprintf(os.Stderr, "there is no '%s'; one of: kubelet kube-proxy\n", name)
		os.Exit(2)
	}
	os.Exit(cli.Run(command()))
}
