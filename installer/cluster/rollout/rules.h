// SPDX-License-Identifier: Apache-2.0
// Inside the transition: what rules are made of. Conditions look, steps write the next record.
#pragma once
#include "cluster/rollout/transition.h"

typedef bool condition(const struct view *v);
typedef void step(const struct view *v, struct decision *d);

#define IN(phase) (1U << PHASE_##phase)
#define RESTING (IN(IDLE) | IN(DONE) | IN(ROLLEDBACK))
#define DRAINING (IN(CORDONED) | IN(WAITING) | IN(EVICTING))

enum { REPEAT_S = 24 * 60 * 60 }; // a driver that was proven and lasted so long is no repetition

struct rule {
	unsigned phases;
	const char *text;
	condition *when;
	step *take;
};
extern const struct rule repair_rules[], begin_rules[], drain_rules[], change_rules[], end_rules[]; // .text NULL ends

// Conditions (rule_conditions.c)
bool is_busy(const struct view *v);                      // holders, or nobody knows
bool is_expired(const struct view *v);                   // the deadline is over
bool is_silent(const struct view *v);                    // not even an acceptance of the last order
bool is_at(const struct view *v, const struct aim *aim); // exactly this is in the kernel
bool is_spent(const struct view *v);                     // the target must not be ordered once more
bool is_well(const struct view *v);                      // under our cordon, with a driver that may prove itself
bool is_retry(const struct view *v);                     // somebody asks for one more attempt
bool is_moving(const struct view *v);                    // to the roll-out's target, from another driver
bool is_ordered(const struct view *v, enum verb verb, const struct aim *aim); // the last order is this one
bool answered(const struct view *v, enum result result);
bool failed_as(const struct view *v, enum failing failing);
unsigned failed_drains(const struct view *v, const struct aim *aim);
bool backed_off(const struct view *v, unsigned tries); // long enough after the state began
enum reason_code stands_down(const struct view *v);    // why the node is to be left alone
struct aim way_back(const struct view *v);
const char *ack_code(const struct view *v);
bool is_handed_over(const struct view *v); // NVIDIA's operator drives the node by now, and its driver is in the kernel
bool is_upgraded(const struct view *v);    // NVIDIA's controller is in the middle of an upgrade of its own
const char *stands_down_for(const struct view *v); // what takes it out, by name; "" = the reason says it

// Steps (rule_actions.c)
void enter(const struct view *v, struct decision *d, enum phase phase, enum reason_code why, const char *object);
void keep_reason(const struct view *v, struct decision *d);
void give_order(const struct view *v, struct decision *d, enum verb verb, struct aim aim);
void take_back_order(const struct view *v, struct decision *d);
void pause_operands(const struct view *v, struct decision *d);
uint16_t last_operands(const struct view *v); // that run there, and that pods need for their end
void give_back(struct decision *d);           // operands and hints
void release(const struct view *v, struct decision *d, enum phase outcome, enum reason_code why, const char *object);
void stop_drain(const struct view *v, struct decision *d, enum reason_code why, const char *object);
void count_drain(struct decision *d);                        // one more that ended without a replacement
void count_repeat(const struct view *v, struct decision *d); // another driver is where this one had been proven
void restore(const struct view *v, struct decision *d, enum reason_code why, bool is_blamed);
void leave_to_operator(const struct view *v, struct decision *d);
void fail(const struct view *v, struct decision *d, enum reason_code why, const char *object);
void set_target(const struct view *v, struct decision *d, struct aim aim);
