// SPDX-License-Identifier: Apache-2.0
#pragma once

enum agent_work {          // of a child of the agent
	AGENT_WORK_STAGE,  // everything that it takes onto the disk; nothing is touched
	AGENT_WORK_SWAP,   // into the kernel, from the disk alone; also what failed here before
	AGENT_WORK_REVIVE, // the same, after a boot; not what failed here before
	AGENT_WORK_PROBE,  // measure
};
