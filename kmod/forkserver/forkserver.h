// SPDX-License-Identifier: Apache-2.0
// A compiler that has read the headers already: fork servers for gcc.
//
// Of the time that a driver's compile takes, most goes into reading the same headers again: nearly all of each of
// conftest's 250 to 300 test compiles, and half of each object. So the first compile of a kind starts a second
// compiler, which reads what others will begin with, too, and stops. Each later one asks it to fork; the child reads on
// where the compile's own text begins, and writes its output. It has exactly the state of a compiler that read all of
// it by itself: no precompiled header, nothing is compiled in another order, no test is changed. Its assembler output
// is the same to the byte.
//
// How it is done:
//
//   make -> gcc -> cc1     COMPILER_PATH leads gcc to a script of this name, which starts the real cc1 with LD_PRELOAD
//                          (preload.c). gcc, as, ccache and the makefiles are what they are.
//   a cc1 that compiles    splits its source (directives.c) into pieces, each with an #include, and the rest. Its
//                          arguments, without what is each object's own, and the pieces name the servers that it could
//                          use. It asks the one that has read most, and ends as the child did.
//   a cc1 that serves      compiles a source of one line, `#include "kmodsmith-forkserver.0"`. The library catches the
//                          open() of that name and waits there. For "grow" it forks, and the child's open() returns the
//                          next piece, ending in an #include of kmodsmith-forkserver.1, where the child waits in turn.
//                          For "compile" the child's open() returns the rest of the source, after a #line. So servers
//                          are a tree, one for each beginning that is shared.
//   what is an object's    KBUILD_BASENAME is defined with the rest. While servers read, it and __BASE_FILE__ are
//   own                    macros that are an error, which ends the server. The names in .file and in the list of
//                          dependencies are put right when the output is copied.
//   which are shared       of objects, the sources beside one another tell; of conftest's tests, which nobody reads the
//                          messages of, every piece is taken to be.
//
// Whatever is not as expected compiles alone: an option not known to be the same in a fork, a warning in what a server
// reads or in what its child compiles (so that each is told where it belongs), a header that changed after a server had
// read it, a server that died, one that is only being started, a signal. The fallback is to do nothing: the process
// goes on as the cc1 that it is.
//
// And nothing of this is used before it was tried on this machine (check.sh, half a second): five sources compiled by
// gcc alone and by servers give the same objects, the same dependencies and the same failures, and servers were really
// asked. clang, a static cc1, a C library that is not understood do not pass, and the compile is as without it;
// `--no-cache`, and less memory than a few servers need, do without it, too.
// The servers live in the sandbox, as the compile's uid, and end with it.
#pragma once
#include "base/file/root.h"

#define FORKSERVER_DIR "forkserver" // in the job
#define FORKSERVER_CHECK FORKSERVER_DIR "/check.sh"

// Puts the library and the check into the job. The check runs in the sandbox, `sh check.sh CC`: 0 = CC can be used with
// COMPILER_PATH set to the directory; its last line says why not.
int forkserver_prepare(const struct root *job, struct err *err);
// How many servers there may be with so many bytes of memory for them. 0 = too few to pay for themselves.
unsigned forkserver_most(uint64_t bytes);
size_t forkserver_count(const struct root *job); // how many compiles were forked
