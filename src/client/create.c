#include "create.h"

#include <stdio.h>

#include "compose.h"
#include "compose_lockfiles.h"
#include "member.h"

static int add_limits(json_t *body, const struct create_options *o, struct err *e)
{
	json_t *limits = json_object();

	if (limits == NULL || json_object_set_new(body, "limits", limits) < 0)
		return err_set(e, ERR_SYSTEM, "out of memory");
	if (compose_number(limits, "memory", o->memory, e) < 0 ||
	    compose_number(limits, "pids", o->pids, e) < 0 ||
	    compose_number(limits, "disk", o->disk, e) < 0 ||
	    compose_number(limits, "inodes", o->inodes, e) < 0 ||
	    compose_number(limits, "nofile", o->nofile, e) < 0 ||
	    compose_number(limits, "disk_read_bps", o->read_bps, e) < 0 ||
	    compose_number(limits, "disk_write_bps", o->write_bps, e) < 0)
		return -1;
	if (o->cpus > 0 &&
	    json_object_set_new(limits, "cpus", json_real((double)o->cpus / 1000)) < 0)
		return err_set(e, ERR_SYSTEM, "out of memory");
	if (json_object_size(limits) == 0)
		(void)json_object_del(body, "limits");
	return 0;
}

static int add_storage(json_t *body, const struct create_options *o, struct err *e)
{
	if (compose_text(body, "storage", "--storage", o->storage, e) < 0 ||
	    compose_time_text(body, "keep", "--keep", o->keep, e) < 0)
		return -1;
	if ((o->read_only && json_object_set_new(body, "root", json_string("read-only")) < 0) ||
	    (o->persist && json_object_set_new(body, "persist", json_true()) < 0))
		return err_set(e, ERR_SYSTEM, "out of memory");
	return 0;
}

json_t *create_body(const struct create_options *o, struct err *e)
{
	json_t *body = json_object();

	if (body == NULL || compose_text(body, "template", "--template", o->template, e) < 0 ||
	    compose_text(body, "profile", "--profile", o->profile, e) < 0 ||
	    compose_text(body, "level", "--level", o->level, e) < 0 || add_limits(body, o, e) < 0 ||
	    add_storage(body, o, e) < 0 || compose_mounts(body, "mounts", &o->mounts, e) < 0 ||
	    compose_volumes(body, "volumes", &o->volumes, e) < 0 ||
	    compose_pairs(body, "metadata", "--metadata", &o->metadata, e) < 0 ||
	    compose_network(body, "network", &o->policy, &o->allow, e) < 0 ||
	    compose_lockfiles(body, "network", &o->lockfiles, e) < 0) {
		json_decref(body);
		return NULL;
	}
	return body;
}

int create_session(struct api_call *a, const json_t *body, json_t **ret, struct err *e)
{
	struct target t;

	target_init(&t, "/v1/sessions");
	if (api_call_json(a, "POST", &t, body, ret, e) < 0)
		return -1;
	if (*member_text(*ret, "id", "") == '\0')
		return err_set(e, ERR_SYSTEM,
			       "the server created a session and did not report its id");
	return 0;
}
