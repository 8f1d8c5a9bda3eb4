#include "front/web/secret_calls.h"

#include "daemon/secrets/secret.h"
#include "front/web/auth.h"
#include "front/web/reply.h"
#include "front/web/spec_secret.h"

#define SECRET_JSON_MAX (128U << 10)

/* row is released. */
static void reply_secret(struct request *r, const struct secret_calls *how, int status,
			 struct store_secret *row)
{
	struct json j;

	json_init_heap(&j, SECRET_JSON_MAX);
	how->show(&j, r->core, row);
	store_secret_release(row);
	reply_json(r, status, &j);
}

void secret_calls_create(struct request *r, const struct secret_calls *how, const void *body,
			 size_t len)
{
	struct store_secret row;
	struct spec_secret spec;
	struct err e = { 0 };
	int made = spec_secret_read(body, len, how->lenient, &spec, &e);

	if (made == 0)
		made = auth_check_unlimited(r, &e);
	if (made == 0 && spec.name == NULL)
		made = err_set(&e, ERR_INVALID, "name: is missing");
	if (made == 0)
		made = secret_create(r->core, r->tenant, spec.name, &spec.fields, request_actor(r),
				     &row, &e);
	spec_secret_release(&spec);
	if (made < 0) {
		reply_error(r, &e);
	} else {
		if (how->place != NULL)
			reply_location(r, how->place, row.name);
		reply_secret(r, how, 201, &row);
	}
}

void secret_calls_get(struct request *r, const struct secret_calls *how)
{
	struct store_secret row;
	struct err e = { 0 };

	if (secret_get(r->core, r->tenant, r->id, &row, &e) < 0)
		reply_error(r, &e);
	else
		reply_secret(r, how, 200, &row);
}

void secret_calls_update(struct request *r, const struct secret_calls *how, const void *body,
			 size_t len)
{
	struct store_secret row;
	struct spec_secret spec;
	struct err e = { 0 };
	int done = spec_secret_read(body, len, how->lenient, &spec, &e);

	if (done == 0)
		done = auth_check_unlimited(r, &e);
	if (done == 0 && how->lenient && spec.fields.value == NULL)
		done = err_set(&e, ERR_INVALID, "value: is missing");
	if (done == 0 && !how->lenient && spec.name != NULL)
		done = err_set(&e, ERR_INVALID, "name: cannot be changed");
	if (done == 0)
		done = secret_update(r->core, r->tenant, r->id, &spec.fields, request_actor(r),
				     &row, &e);
	spec_secret_release(&spec);
	if (done < 0)
		reply_error(r, &e);
	else
		reply_secret(r, how, 200, &row);
}

void secret_calls_delete(struct request *r)
{
	struct err e = { 0 };

	if (auth_check_unlimited(r, &e) < 0 ||
	    secret_delete(r->core, r->tenant, r->id, request_actor(r), &e) < 0)
		reply_error(r, &e);
	else
		reply_empty(r, 204);
}
