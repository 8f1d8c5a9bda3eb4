/* cell_layout.h - tables of the files that programs see at every level: device nodes and links of
 * /dev, and covered entries of /proc. For cell/keeper/root.c, which makes the root of a cell,
 * cell/cellctl/keeper_client.c, which finds the entries that need a cover, and
 * cell/init/guest/guest_root.c, which makes the root of a guest with a kernel of its own. */
#pragma once

static const struct {
	const char *name;
	unsigned major, minor;
} dev_nodes[]
	__attribute__((unused)) = { { "null", 1, 3 },	{ "zero", 1, 5 },    { "full", 1, 7 },
				    { "random", 1, 8 }, { "urandom", 1, 9 }, { "tty", 5, 0 } };

/* clang-format off */
static const char *const dev_links[][2] __attribute__((unused)) = {
	{ "fd", "/proc/self/fd" }, { "ptmx", "pts/ptmx" }, { "stdin", "/proc/self/fd/0" },
	{ "stdout", "/proc/self/fd/1" }, { "stderr", "/proc/self/fd/2" },
};
/* clang-format on */

/* Entries that show data of the machine, its kernel or its devices. iomem and ioports are not among
 * them: the kernel shows zeros there to all but the machine's root. */
static const char *const proc_hidden[] __attribute__((unused)) = {
	"acpi",	      "asound",	    "bootconfig",    "bus",	   "cmdline",
	"config.gz",  "driver",	    "dynamic_debug", "interrupts", "kallsyms",
	"kcore",      "key-users",  "keys",	     "kmsg",	   "kpagecgroup",
	"kpagecount", "kpageflags", "latency_stats", "modules",	   "sched_debug",
	"scsi",	      "slabinfo",   "sysrq-trigger", "timer_list", "vmallocinfo",
};
