// SPDX-License-Identifier: GPL-2.0
/*
 * Users of nvidia that are no process and no dependent module: the parameter `hold` takes and gives back a reference.
 * With `late`, it is taken when nvidia_uvm goes: the driver was free when its unload began and is not when it is
 * nvidia's turn. Must be loaded before nvidia.
 */
#include <linux/module.h>
#include <linux/mutex.h>

static DEFINE_MUTEX(lock);
static struct module *nvidia;
static bool hold, late;

static void set_hold(bool wanted)
{
	mutex_lock(&lock);
	if (wanted && !hold && nvidia)
		hold = try_module_get(nvidia);
	else if (!wanted && hold) {
		module_put(nvidia);
		hold = false;
	}
	mutex_unlock(&lock);
}

static int write_hold(const char *text, const struct kernel_param *param)
{
	bool wanted;
	int r = kstrtobool(text, &wanted);

	if (!r)
		set_hold(wanted);
	return r;
}

static const struct kernel_param_ops hold_ops = { .set = write_hold, .get = param_get_bool };
module_param_cb(hold, &hold_ops, &hold, 0644);
module_param(late, bool, 0644);

static int follow(struct notifier_block *block, unsigned long state, void *data)
{
	struct module *module = data;

	if (!strcmp(module->name, "nvidia"))
		nvidia = state == MODULE_STATE_GOING ? NULL : module;
	if (!strcmp(module->name, "nvidia_uvm") && state == MODULE_STATE_GOING && late)
		set_hold(true);
	return NOTIFY_DONE;
}

static struct notifier_block follower = { .notifier_call = follow };

static int __init fakehold_init(void)
{
	return register_module_notifier(&follower);
}

static void __exit fakehold_exit(void)
{
	unregister_module_notifier(&follower);
	set_hold(false);
}

module_init(fakehold_init);
module_exit(fakehold_exit);
MODULE_DESCRIPTION("A reference on nvidia that nobody can be named for, for tests");
MODULE_LICENSE("GPL");
