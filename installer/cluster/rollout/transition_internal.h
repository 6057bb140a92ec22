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

// Conditions (rules.c)
bool rule_is_busy(const struct view *v);    // in use, or unknown
bool rule_is_expired(const struct view *v); // the deadline is over
bool rule_is_silent(const struct view *v);  // not even an acceptance of the last order
bool rule_is_loaded(const struct view *v, const struct target_hash *target_hash); // exactly this is in the kernel
bool rule_is_target_spent(const struct view *v);    // the target must not be ordered once more
bool rule_is_provable(const struct view *v);        // under our cordon, with a driver that may prove itself
bool rule_is_retry_requested(const struct view *v); // one more attempt is requested
bool rule_is_moving(const struct view *v);          // to the rollout's target, from another driver
bool rule_is_ordered(const struct view *v, enum verb verb,
		     const struct target_hash *target_hash); // the last order is this one
bool rule_is_answered(const struct view *v, enum result result);
bool rule_has_failed_as(const struct view *v, enum failing failing);
bool rule_has_backed_off(const struct view *v, unsigned tries); // long enough after the state began
enum reason_code rule_stand_down_reason(const struct view *v);  // why the node is to be left alone
struct target_hash rule_previous_driver(const struct view *v);
const char *rule_ack_code(const struct view *v);
bool rule_is_handed_over(
	const struct view *v); // NVIDIA's operator drives the node by now, and its driver is in the kernel
bool rule_is_upgraded(const struct view *v); // NVIDIA's controller is in the middle of an upgrade of its own
const char *rule_stand_down_object(const struct view *v); // what takes it out, by name; "" = the reason says it

// Steps (rules.c)
void rule_enter_phase(const struct view *v, struct decision *d, enum node_phase phase, enum reason_code why,
		      const char *object);
void rule_keep_reason(const struct view *v, struct decision *d);
void rule_give_order(const struct view *v, struct decision *d, enum verb verb, struct target_hash target_hash);
void rule_take_back_order(const struct view *v, struct decision *d);
void rule_pause_operands(const struct view *v, struct decision *d);
uint16_t rule_last_operands(const struct view *v); // that run there, and that pods need for their end
void rule_give_back_operands(struct decision *d);  // operands and hints
void rule_release_node(const struct view *v, struct decision *d, enum node_phase outcome, enum reason_code why,
		       const char *object);
void rule_stop_drain(const struct view *v, struct decision *d, enum reason_code why, const char *object);
void rule_count_drain(struct decision *d);                        // one more that ended without a replacement
void rule_count_repeat(const struct view *v, struct decision *d); // another driver is where this one had been proven
void rule_restore_driver(const struct view *v, struct decision *d, enum reason_code why, bool is_blamed);
void rule_leave_to_operator(const struct view *v, struct decision *d);
void rule_fail_node(const struct view *v, struct decision *d, enum reason_code why, const char *object);
void rule_set_target(const struct view *v, struct decision *d, struct target_hash target_hash);
void rule_queue_recovery(const struct view *v, struct decision *d); // for a proof of what it has
