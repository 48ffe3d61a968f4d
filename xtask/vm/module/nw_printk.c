// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Stands in for NVIDIA's driver: prints, as the kernel, what is written to /sys/module/nw_printk/parameters/line.
 * Only code in the kernel can do this: what a program writes to /dev/kmsg never has the kernel's facility.
 */
#include <linux/module.h>
#include <linux/printk.h>

static int print_line(const char *text, const struct kernel_param *param)
{
	/* echo ends the text with a newline, and so does printk. */
	printk(KERN_ERR "%.*s\n", (int)strcspn(text, "\n"), text);
	return 0;
}

static const struct kernel_param_ops line_ops = { .set = print_line };

module_param_cb(line, &line_ops, NULL, 0200);
MODULE_PARM_DESC(line, "printed as it is, level error");
MODULE_DESCRIPTION("prints a line for nodewarden's tests");
MODULE_LICENSE("Dual MIT/GPL");
