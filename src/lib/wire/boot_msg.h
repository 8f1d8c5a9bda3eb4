/* boot_msg.h - channel B of a cell whose PID 1 is cordon-shim: the bodies of BOOT and RESUME, and
 * the words of BOOTED, SNAPSHOT_DONE and GUEST (agent_msg.h). doc/shim-protocol.md describes their
 * use.
 *
 * BOOT starts an engine in the cell, and in it a guest. RESUME lets a stopped guest run as a new
 * machine. Both have the same body: a list of fields (codec.h) of one exact length but for the host
 * name. With BOOT come descriptors, which the set `fds` names, in the order of its bits. A reader
 * returns a whole request with all values in range, or an error. Pure. */
#pragma once

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/wire/frame.h"

#define BOOT_HOSTNAME_MAX 65 /* with the NUL, as sethostname(2) takes it */
#define BOOT_MACHINE_ID_MAX 33
#define BOOT_REQUEST_MAX 256U
#define BOOT_MEMORY_MAX (1ULL << 46)
#define BOOT_COUNT_MAX (1ULL << 40) /* of inodes, processes, open files */
#define BOOT_CPUS_MAX 64U
#define BOOT_WAIT_MAX 3600U /* seconds */
#define BOOT_TEXT_MAX 4096U /* of the engine's output, with BOOTED */

enum boot_engine { BOOT_GVISOR = 1, BOOT_MICROVM, BOOT_ENGINES_END };

/* How the microVM's processor is made. AUTO: by the machine (KVM) if it is fast, else by software.
 * In BOOTED: the choice. AUTO there is "neither", as for gVisor. */
enum boot_accel { BOOT_ACCEL_AUTO, BOOT_ACCEL_KVM, BOOT_ACCEL_TCG, BOOT_ACCELS_END };

enum {
	BOOT_RESTORE = 1 << 0, /* from a memory image, which comes along. Else a cold start */
	/* The guest does not run until RESUME. Only with RESTORE. */
	BOOT_PAUSED = 1 << 1,
	BOOT_FLAGS_ALL = (1 << 2) - 1,
};

/* Other things that programs of the guest get, or do not. */
enum {
	/* Only /tmp, /dev/shm, /home/user and (for root) /run are writable. microVM only: the root
	 * of gVisor is the cell's. */
	BOOT_READ_ONLY = 1 << 0,
	BOOT_OPTIONS_ALL = (1 << 1) - 1,
};

/* Descriptors that come with BOOT, lowest bit first. gVisor: ENGINE, and INIT if there is one.
 * microVM: KERNEL, INITRD, ROOT. With RESTORE: ROOT, RAM, DEVICES (KERNEL and INITRD may come).
 * CHANGES if the guest is not as RAM is, and instead of DEVICES and CHANGES may come LATER. ENGINE
 * if it is not the one in the cell's own root. All are open for reading. RAM, DEVICES and CHANGES
 * are sealed. */
enum boot_fd {
	BOOT_FD_ENGINE = 1 << 0, /* runsc, QEMU */
	BOOT_FD_INIT = 1 << 1,	 /* cordon-init, which runs in the guest */
	BOOT_FD_KERNEL = 1 << 2,
	BOOT_FD_INITRD = 1 << 3,
	BOOT_FD_ROOT = 1 << 4,	  /* the root image */
	BOOT_FD_RAM = 1 << 5,	  /* the memory image: the guest's memory */
	BOOT_FD_DEVICES = 1 << 6, /* and the state of its devices */
	/* Pages that differ from RAM: data of a file as large as RAM, whose holes say nothing. */
	BOOT_FD_CHANGES = 1 << 7,
	/* A sequenced-packet socket: one message of one byte with DEVICES, and CHANGES if there are
	 * any, comes when they are there. The engine is started in the meantime. */
	BOOT_FD_LATER = 1 << 8,
	BOOT_FDS_ALL = (1 << 9) - 1,
};
#define BOOT_FDS_MAX 9

/* The failed step. In BOOTED and SNAPSHOT_DONE. */
enum boot_stage {
	BOOT_AT_ENGINE,	  /* the engine could not be started, or exited */
	BOOT_AT_KERNEL,	  /* the guest's kernel panicked, or its start failed */
	BOOT_AT_AGENT,	  /* the guest's agent broke the protocol */
	BOOT_AT_RESTORE,  /* the memory image was not accepted */
	BOOT_AT_TIME,	  /* nothing failed, but the guest did not answer in time */
	BOOT_AT_SNAPSHOT, /* the guest's state could not be written */
	BOOT_AT_STATE,	  /* a request that makes no sense now: a second BOOT, no guest yet */
	BOOT_STAGES
};

/* The errno of a SNAPSHOT_DONE that says that there is no guest any more. GUEST follows. */
#define BOOT_SYS_ENDED ESRCH

/* In GUEST. After PANICKED, BROKE and EXITED the shim exits, and the cell ends. */
enum boot_guest {
	BOOT_GUEST_ALIVE,	 /* it answers again */
	BOOT_GUEST_UNRESPONSIVE, /* it has not answered for a while. It may do so later */
	BOOT_GUEST_PANICKED,	 /* its kernel has ended */
	BOOT_GUEST_BROKE,	 /* it broke the protocol, and was ended for that */
	BOOT_GUEST_EXITED,	 /* the engine has ended */
	BOOT_GUEST_OVERDUE,	 /* a program outlived its timeout: the engine was ended for that */
	BOOT_GUEST_STATES
};

/* The parts of a guest. Times and random numbers are not in it: the shim takes them from the
 * machine's kernel at the moment when it greets the guest. */
struct boot_request {
	uint32_t engine;   /* enum boot_engine */
	uint32_t flags;	   /* set of BOOT_RESTORE, BOOT_PAUSED. RESUME: 0 */
	uint32_t fds;	   /* set of enum boot_fd. RESUME: 0 */
	uint32_t accel;	   /* enum boot_accel */
	uint32_t vcpus;	   /* microVM: at least 1 */
	uint32_t profile;  /* enum cell_profile: that of the session's programs in the guest */
	uint32_t uid, gid; /* of programs that name no user */
	/* Until the engine has started and the guest has booted: at most so many seconds in all, of
	 * a clone each. 0: as long as the shim waits by itself. */
	uint32_t wait_s;
	uint32_t options;      /* set of BOOT_READ_ONLY */
	uint64_t memory_bytes; /* microVM: the guest's memory, whole MiB. gVisor: the limit, or 0 */
	/* For the file system that holds the guest's writes. 0: no limit. */
	uint64_t disk_bytes, inodes;
	uint64_t pids, nofile; /* 0: no limit */
	char hostname[BOOT_HOSTNAME_MAX];
	char machine_id[BOOT_MACHINE_ID_MAX]; /* 32 hexadecimal digits */
};

/* Read the body of BOOT or RESUME. */
int boot_request_read(const struct frame *f, struct boot_request *ret, struct err *e) MUST_USE;

/* Write the body of a request of that type (AGENT_BOOT, AGENT_RESUME). Return its length, or 0 if
 * the request has values that a reader refuses. */
size_t boot_request_write(const struct boot_request *q, uint16_t type,
			  uint8_t ret_body[BOOT_REQUEST_MAX]);

/* How many descriptors come with a request with this set. */
size_t boot_fds_count(uint32_t fds);

/* The place of that descriptor among those that came along. -1 if it is not in the set. */
int boot_fds_index(uint32_t fds, enum boot_fd which);

/* Words for logs and errors: "engine", "kernel", .... "panicked", ... */
const char *boot_stage_word(uint32_t stage);
const char *boot_guest_word(uint32_t state);
