// SPDX-License-Identifier: Apache-2.0
// The two sides of a hand-over to OpenShift's driver toolkit, under the name that pod specs use.
#pragma once

// argv[0] was ocp_dtk_entrypoint: its verbs, without options of their own.
#define DTK_PROGRAM "ocp_dtk_entrypoint"
int dtk_main(int argc, char **argv);
