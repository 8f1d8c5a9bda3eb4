/* supervisor_msg.h - the descriptors and settings that the supervisor (cordon serve) gives cordond
 * at its start, and the messages between the two. Both are built together. cordond trusts the
 * supervisor. The supervisor accepts nothing from cordond but the messages below, and acts on its
 * own children only.
 *
 * cordond is started with the descriptors below. Messages over the control socket are two bytes: a
 * letter, and the slot, the number of the process among those of one program. A channel A, C or D
 * comes as the one descriptor of such a message. SERVE_HOST is a struct serve_host_changed. */
#pragma once

#include <stdint.h>

#include "lib/wire/cell_level.h"
#include "lib/wire/keeper_msg.h"

#define SERVE_VERSION 8
#define SERVE_LISTENERS_MAX 8
#define SERVE_ROOTS_MAX 8
#define SERVE_GUEST_KEY_MAX 72
#define SERVE_GUEST_ORIGIN_MAX 640
#define SERVE_HOST_NAME_MAX 32

/* Files that engines need: descriptors sent with BOOT (boot_msg.h). */
enum serve_level_file {
	SERVE_LEVEL_RUNSC,  /* the program */
	SERVE_LEVEL_KERNEL, /* of guests, in sealed memory */
	SERVE_LEVEL_INITRD, /* the same */
	SERVE_LEVEL_FILES
};

enum {
	SERVE_FD_CONTROL = 3, /* SOCK_SEQPACKET */
	SERVE_FD_CONFIG = 4,  /* config_write()'s text */
	SERVE_FD_SETUP = 5,   /* struct serve_setup */
	SERVE_FD_CGROUP = 6,  /* as keepers have them. May be missing */
	SERVE_FD_CERT = SERVE_FD_CGROUP + CELL_CGROUP_DIRS, /* PEM. May be missing */
	SERVE_FD_KEY,
	SERVE_FD_SECRETS, /* keys of secrets, see seal.h */
	SERVE_FD_LEVELS,  /* files of engines, by enum serve_level_file. Each may be missing */
	SERVE_FD_LISTEN = SERVE_FD_LEVELS + SERVE_LEVEL_FILES, /* and up */
};

/* Messages over the control socket: one of these, then the slot (0 where there is only one). */
#define SERVE_MESSAGE 2
#define SERVE_KEEPERS_MAX 16
#define SERVE_EGRESS_MAX 8
enum {
	SERVE_KEEPER = 'K',  /* to cordond, with a descriptor: a keeper's channel A */
	SERVE_EGRESS = 'E',  /* to cordond, with a descriptor: a cordon-egress's channel C */
	SERVE_STORAGE = 'S', /* to cordond, with a descriptor: cordon-storage's channel D */
	SERVE_PULL = 'P',    /* to cordond, with a descriptor: cordon-pull's channel (pull_msg.h) */
	SERVE_CACHE = 'A', /* to cordond, with a descriptor: cordon-cache's channel (cache_msg.h) */
	/* To cordond, with a descriptor: cordon-notary's channel (notary_msg.h). */
	SERVE_NOTARY = 'N',
	/* To cordond, a struct serve_host_changed: the keepers have other layers of the template
	 * "host". */
	SERVE_HOST = 'H',
	SERVE_READY = 'R', /* to the supervisor: requests are answered */
	/* To the supervisor: the process in that slot hangs and is to be killed and replaced. */
	SERVE_KEEPER_HUNG = 'k',
	SERVE_EGRESS_HUNG = 'e',
	SERVE_STORAGE_HUNG = 's',
	SERVE_PULL_HUNG = 'p',
	SERVE_CACHE_HUNG = 'a',
	SERVE_NOTARY_HUNG = 'n',
};

/* The exit status of cordond and cordon-egress when they could not start, after an error in the
 * log. */
#define SERVE_EXIT_CANNOT_START 3

/* Descriptors that the supervisor or cordon run starts cordon-egress with. It reads the files and
 * closes them. cordon-pull gets the same, with its own channel, and no EGRESS_FD_CA. */
enum {
	EGRESS_FD_CONTROL = 3, /* SOCK_SEQPACKET to the supervisor. May be missing */
	EGRESS_FD_CHANNEL, /* the first channel C (egress_msg.h). May be missing if there is control
			    */
	EGRESS_FD_RESOLV,  /* resolv.conf of the node. May be missing */
	EGRESS_FD_HOSTS,   /* hosts of the node. May be missing */
	EGRESS_FD_BUNDLE,  /* PEM: authorities that servers are verified by */
	EGRESS_FD_CA,	   /* PEM: key and certificate of the authority that cells trust */
	EGRESS_FD_EXTRA,   /* PEM: further authorities, the operator's. May be missing */
	EGRESS_FDS_END,
};

/* Descriptors of cordon-cache. */
enum {
	CACHE_FD_CHANNEL = 3, /* SOCK_SEQPACKET to cordond, cache_msg.h */
	CACHE_FD_DIR,	      /* its folder */
	CACHE_FDS_END,
};

/* Descriptors of cordon-notary. */
enum {
	NOTARY_FD_CHANNEL = 3, /* SOCK_STREAM to cordond, notary_msg.h */
	NOTARY_FD_DIR,	       /* its folder */
	NOTARY_FDS_END,
};

/* Messages over the control socket of cordon-egress, to it. */
enum {
	EGRESS_CONTROL_CHANNEL = 'C',	 /* one descriptor: a new channel C */
	EGRESS_CONTROL_NAMES = 'H',	 /* two descriptors: resolv.conf and hosts have changed */
	EGRESS_CONTROL_ADVISORIES = 'A', /* one descriptor: a list of bad packages, sealed memory */
};

/* The template "host": layers that the supervisor opened. */
struct serve_host {
	uint32_t nlayers;
	uint32_t roots[CELL_LAYERS_MAX]; /* the keeper's roots, by number */
	char at[CELL_LAYERS_MAX][CELL_PLACE_MAX];
	char name[SERVE_HOST_NAME_MAX]; /* of the first layer, for cordon-storage */
	uint64_t bytes;			/* of a root image of it. 0: not more than guest_root_max */
};

/* The whole message. */
struct serve_host_changed {
	char word, slot; /* SERVE_HOST, 0 */
	char name[SERVE_HOST_NAME_MAX];
	uint64_t bytes;
};

struct serve_setup {
	uint32_t version;
	uint32_t cgroup_version, limits; /* of struct cgroups */
	char no_limits_why[128];
	uint32_t nlisteners;
	uint32_t tls_from; /* listeners at or above this one are plain: Unix sockets */
	uint32_t nroots;
	uint32_t nkeepers; /* 1 to SERVE_KEEPERS_MAX */
	uint32_t negress;  /* processes of cordon-egress, 1 to SERVE_EGRESS_MAX */
	struct cell_level_state levels[CELL_LEVELS];
	uint32_t use_kvm;		     /* guests of level microvm run on the processor */
	char guest_key[SERVE_GUEST_KEY_MAX]; /* changes with the guest's kernel and agent, and QEMU
					      */
	char guest_origin[SERVE_GUEST_ORIGIN_MAX]; /* the same in words: lines "word\ttext" */
	struct serve_host host;
	uint32_t template_root; /* the keeper's root for template_dir, by number */
	char template_dir[CELL_PATH_MAX];
	uint32_t volumes_root; /* for its volumes */
	uint32_t layers_root;  /* the keeper's root for the layers of storage_dir */
	struct {
		uint32_t root; /* the keeper's, by number */
		uint32_t writable;
		char path[CELL_PATH_MAX];
	} roots[SERVE_ROOTS_MAX];
};
