// SPDX-License-Identifier: Apache-2.0

// kubectl, which is a library with this main in the module of Kubernetes. That module installs nothing: it replaces others.
// For scripts/go-program.sh.
package main

import (
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
