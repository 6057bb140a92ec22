// SPDX-License-Identifier: Apache-2.0
// The virtual clock of the process, and its timers. It stands still while code runs and advances while a caller waits;
// due timers then run one after the other, also inside the wait of a call, so that two programs can overtake each
// other.
#include "tests/sim/sim_internal.h"

#include "cluster/kube/clock.h"

enum { NESTED = 4 }; // timers inside of timers; deeper ones run when those above are finished

struct due {
	long ms;
	void (*run)(void *ctx);
	void *ctx;
	struct due *next;
};

static struct {
	long ms;
	struct due *first; // in order
	unsigned depth;
	uint64_t dice;
} now;

void sim_clock_start(unsigned seed)
{
	while (now.first) {
		struct due *d = now.first;
		now.first = d->next;
		free(d);
	}
	now.ms = 0;
	now.depth = 0;
	now.dice = seed;
}

long sim_now_ms(void)
{
	return now.ms;
}

void sim_after(long ms, void (*run)(void *ctx), void *ctx)
{
	struct due *d = mem_alloc(sizeof(*d));
	*d = (struct due){ .ms = now.ms + ms, .run = run, .ctx = ctx };
	struct due **at = &now.first;
	while (*at && (*at)->ms <= d->ms)
		at = &(*at)->next;
	d->next = *at;
	*at = d;
}

bool sim_clock_step(long until_ms)
{
	struct due *d = now.depth < NESTED ? now.first : NULL;
	if (!d || d->ms > until_ms) {
		now.ms = until_ms > now.ms ? until_ms : now.ms;
		return false;
	}
	now.first = d->next;
	now.ms = d->ms > now.ms ? d->ms : now.ms;
	now.depth++;
	d->run(d->ctx);
	now.depth--;
	free(d);
	return true;
}

void sim_pass(long ms)
{
	long until = now.ms + ms;
	while (sim_clock_step(until))
		;
}

// xorshift64* (Vigna), from the seed: the same every time.
uint32_t sim_dice(void)
{
	now.dice = now.dice ? now.dice : 0x9e3779b97f4a7c15;
	now.dice ^= now.dice >> 12;
	now.dice ^= now.dice << 25;
	now.dice ^= now.dice >> 27;
	return (uint32_t)(now.dice * 0x2545f4914f6cdd1d >> 32);
}

// Replacements for what the real client gets from the system.
long kube_now_ms(void)
{
	return now.ms + 1; // a real clock is never 0 either
}

int64_t kube_wall_s(void)
{
	return SIM_EPOCH + now.ms / 1000;
}

void kube_sleep(long ms)
{
	sim_pass(ms);
}

uint32_t kube_random(void)
{
	return sim_dice();
}
