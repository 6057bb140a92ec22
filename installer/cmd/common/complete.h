// SPDX-License-Identifier: Apache-2.0
// `kmodsmith __complete WORD...`: what could stand for the last word, which is half typed or empty, one a line with its
// help after a tab; then :0 if the names of files could, too, else :4. The shells of packaging/completion ask it, and
// kubectl.
#pragma once
#define COMPLETE_ARG "__complete"
#define COMPLETE_KUBECTL "kubectl_complete-kmodsmith" // kubectl 1.26 and newer runs it
// argv[0]: the first word. Ends in two seconds, also when a machine or a cluster does not answer.
int complete_main(int argc, char **argv);
int complete_kubectl_main(int argc, char **argv); // argv[0]: the program
