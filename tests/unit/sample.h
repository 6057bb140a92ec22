// SPDX-License-Identifier: Apache-2.0
// For programs that walk over every point of something: each call, each step, each module. With CHECK=check in the
// environment they take every third point, today others than yesterday, so that three days walk over all; with
// CHECK=all or without it they take all. What was left out is always said.
#pragma once
#include "tests/unit/test.h"

#include <time.h>

enum { SAMPLE_EVERY = 3 };
struct sample {
	size_t seen, taken;
};

static inline bool sample_is_short_(void)
{
	const char *check = getenv("CHECK");
	return check && strcmp(check, "check") == 0;
}

// Days since 1970, so that it goes on evenly over the end of a year; the same for as long as the program runs.
static inline size_t sample_offset_(void)
{
	static time_t day;
	if (!day)
		day = time(NULL) / (24 * 60 * 60);
	return (size_t)day % SAMPLE_EVERY;
}

// Is the next point taken?
static inline bool sample_next(struct sample *s)
{
	bool is_taken = !sample_is_short_() || s->seen % SAMPLE_EVERY == sample_offset_();
	s->seen++;
	s->taken += is_taken;
	return is_taken;
}

// For programs that go by the dice: so many seeds in `make check`, alone, and in `make check-all`; SEEDS says how many.
static inline unsigned sample_seeds(unsigned few, unsigned some, unsigned many)
{
	const char *check = getenv("CHECK"), *seeds = getenv("SEEDS");
	if (seeds && *seeds)
		return (unsigned)atoi(seeds);
	return !check ? some : strcmp(check, "check") == 0 ? few : many;
}

// At the end of a walk: "# kills: 123 of 369 points, ...". One that takes nothing has failed.
static inline void sample_tell(const struct sample *s, const char *what)
{
	assert_true(s->taken > 0);
	if (s->taken == s->seen)
		print_message("# %s: all %zu points, none left out\n", what, s->seen);
	else
		print_message("# %s: %zu of %zu points, %zu left out (CHECK=check takes every third, today from number "
			      "%zu on; CHECK=all takes all)\n",
			      what, s->taken, s->seen, s->seen - s->taken, sample_offset_() + 1);
}
