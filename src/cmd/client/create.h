/* create.h - making a session: the options that `create` and `run --server` share, and the
 * request.
 */
#pragma once

#include <jansson.h>

#include "cmd/client/api_call.h"

/* The options that make a session, as a member named make of the verb's own struct. Texts and
 * lists are borrowed from argv. 0 and NULL mean that the server's or the template's default
 * holds. */
struct create_options {
	const char *template, *profile, *level;
	uint64_t memory, cpus, pids, disk, inodes, nofile, read_bps, write_bps;
	const char *storage, *keep;
	bool read_only, persist;
	struct option_list mounts, volumes, metadata;
	struct option_list policy, allow, lockfiles;
};

/* JSON has signed numbers only. */
#define CREATE_OPTIONS_NUMBER_MAX ((uint64_t)INT64_MAX)

/* clang-format off */
#define CREATE_OPTIONS(type) \
	{ "template", "NAME", OPTION_TEXT, offsetof(type, make.template), 0, 0, \
	  "root file system of the cell (default: host)", .member = "template", .values = "@templates" }, \
	{ "profile", "NAME", OPTION_TEXT, offsetof(type, make.profile), 0, 0, \
	  "standard: sudo works inside (default); locked: one user only", .member = "profile", .values = "standard locked" }, \
	{ "level", "NAME", OPTION_TEXT, offsetof(type, make.level), 0, 0, \
	  "kind of isolation: container, gvisor or microvm (default: as the template has it)", .member = "level", .values = "container gvisor microvm" }, \
	{ "memory", "SIZE", OPTION_BYTES, offsetof(type, make.memory), 1, CREATE_OPTIONS_NUMBER_MAX, \
	  "memory, files written included", .member = "limits.memory" }, \
	{ "cpus", "NUMBER", OPTION_MILLIS, offsetof(type, make.cpus), 1, 1000000, \
	  "number of processors, such as 0.5 or 2", .member = "limits.cpus" }, \
	{ "pids", "COUNT", OPTION_COUNT, offsetof(type, make.pids), 1, 4194304, \
	  "processes and threads at a time", .member = "limits.pids" }, \
	{ "disk", "SIZE", OPTION_BYTES, offsetof(type, make.disk), 1, CREATE_OPTIONS_NUMBER_MAX, \
	  "bytes in files written", .member = "limits.disk" }, \
	{ "storage", "KIND", OPTION_TEXT, offsetof(type, make.storage), 0, 0, \
	  "where files are written: memory (default), or disk, which may be larger than memory", .member = "storage", .values = "memory disk" }, \
	{ "disk-read-bps", "SIZE", OPTION_BYTES, offsetof(type, make.read_bps), 1, CREATE_OPTIONS_NUMBER_MAX, \
	  "bytes a second read from the disk, with --storage disk", .member = "limits.disk_read_bps" }, \
	{ "disk-write-bps", "SIZE", OPTION_BYTES, offsetof(type, make.write_bps), 1, CREATE_OPTIONS_NUMBER_MAX, \
	  "bytes a second written to the disk, with --storage disk", .member = "limits.disk_write_bps" }, \
	{ "read-only", NULL, OPTION_FLAG, offsetof(type, make.read_only), 0, 0, \
	  "makes the root read-only; /tmp, /run, /dev/shm and the home stay writable", .member = "root=read-only" }, \
	{ "persist", NULL, OPTION_FLAG, offsetof(type, make.persist), 0, 0, \
	  "keeps the session and its disk: idle, it has no processes; its next use starts it again", .member = "persist" }, \
	{ "keep", "TIME", OPTION_SPAN, offsetof(type, make.keep), 0, 0, \
	  "with --persist: time without use after which it is deleted, such as 7d", .member = "keep" }, \
	{ "inodes", "COUNT", OPTION_COUNT, offsetof(type, make.inodes), 1, CREATE_OPTIONS_NUMBER_MAX, \
	  "number of files written", .member = "limits.inodes" }, \
	{ "nofile", "COUNT", OPTION_COUNT, offsetof(type, make.nofile), 1, CREATE_OPTIONS_NUMBER_MAX, \
	  "open files of one process", .member = "limits.nofile" }, \
	{ "mount", "SRC:DST[:ro|rw]", OPTION_LIST, offsetof(type, make.mounts), 0, 0, \
	  "mounts a directory or file of the server's machine, where its operator allows it" }, \
	{ "volume", "NAME:/path[:ro]", OPTION_LIST, offsetof(type, make.volumes), 0, 0, \
	  "mounts a volume, writable unless ro; see cordon volume", .values = "@mounts" }, \
	{ "metadata", "K=V", OPTION_PAIRS, offsetof(type, make.metadata), 0, 0, \
	  "metadata to find the session by", .member = "metadata" }, \
	{ "policy", "FILE|PRESET,...", OPTION_LIST, offsetof(type, make.policy), 0, 0, \
	  "hosts it may reach: a policy file, or presets (see cordon policy presets)", .values = "@presets" }, \
	{ "allow", "HOST[/PATH]", OPTION_LIST, offsetof(type, make.allow), 0, 0, \
	  "also allows this host" }, \
	{ "lockfile", "FILE", OPTION_LIST, offsetof(type, make.lockfiles), 0, 0, \
	  "only packages of this lockfile can be installed; needs --policy" }
/* clang-format on */

/* Make the body of POST /v1/sessions from the options of the verb, CREATE_OPTIONS among them. o is
 * in fields. NULL with e set, else the caller owns it. */
json_t *create_body(const struct verb *v, const void *fields, const struct create_options *o,
		    struct err *e) MUST_USE;
/* Send it. *ret is the session, owned by the caller. */
int create_session(struct api_call *a, const json_t *body, json_t **ret, struct err *e) MUST_USE;
