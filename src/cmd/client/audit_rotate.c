#include "cmd/client/audit_rotate.h"

#include <stdio.h>
#include <time.h>

#include "cmd/client/api_call.h"
#include "cmd/client/member.h"
#include "cmd/client/show.h"
#include "cmd/client/show_json.h"

#define PATH "/v1/audit/rotate"
#define TRIES 3000 /* ten minutes */

/* Until the former key is destroyed: then every log has the new one. */
static int wait_for_logs(struct api_call *a, struct err *e)
{
	const struct timespec pause = { .tv_nsec = 200000000 };

	for (int i = 0; i < TRIES; i++) {
		OWN_JSON *now = NULL;
		struct target t;

		target_init(&t, PATH);
		if (api_call_json(a, "GET", &t, NULL, &now, e) < 0)
			return -1;
		if (member_text(now, "former_vkey", NULL) == NULL)
			return 0;
		(void)nanosleep(&pause, NULL);
	}
	return err_set(
		e, ERR_SYSTEM,
		"the logs do not have the new key yet. The server continues, and destroys the "
		"former key when they have it");
}

int audit_rotate_run(const struct verb *v, const struct args_common *o)
{
	OWN_API_CALL a = { 0 };
	OWN_JSON *keys = NULL;
	struct target t;
	struct err e;

	target_init(&t, PATH);
	if (api_call_open(&a, o, API_CALL_ANSWER_MS, &e) < 0)
		return args_refused(v, &e);
	if (api_call_json(&a, "POST", &t, NULL, &keys, &e) < 0)
		return args_fail(&e);
	/* At once: the new key is what must be kept, also if the wait is interrupted. */
	if (o->json) {
		show_json(keys, true, stdout);
	} else {
		(void)printf("former ");
		show_text(member_text(keys, "former_vkey", "-"), stdout);
		(void)printf("\nkey    ");
		show_text(member_text(keys, "vkey", "-"), stdout);
		(void)putchar('\n');
	}
	(void)fflush(stdout);
	return wait_for_logs(&a, &e) < 0 ? args_fail(&e) : ARGS_OK;
}
