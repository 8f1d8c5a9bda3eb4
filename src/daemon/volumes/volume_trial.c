/* volume_trial.c - finds out whether this machine can mount images of volumes, before the first
 * volume is made: a small one is made, mounted and removed, once the server has started. Called by
 * volume.c.
 *
 * Only this trial turns all volumes of the node into directories without a limit of their size. At
 * the start no tenant has taken descriptors or loop devices, and a short lack of resources decides
 * nothing: the trial is repeated. A failure of a volume is a failure of that volume alone. A
 * success is noted in the store, and later servers try nothing.
 *
 * The image of the trial has a name of its own: after a kill in between the next daemon makes it
 * again, and removes it. */
#include <errno.h>

#include "daemon/volumes/volume_state.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/str.h"

#define IMAGES_WORK "volume_images" /* a fact of the store: an image was mounted here */
#define IMAGE "00000000-0000-4000-8000-000000000000"
#define BYTES (8U << 20)
#define DEADLINE_MS 60000
#define AGAIN_MS 10000

void volume_trial_setup(struct volume_node *n)
{
	char known[8];
	struct err unknown;

	n->trial.decided = store_meta_get(core_store(n->core), IMAGES_WORK, known, sizeof(known),
					  &unknown) == 0;
}

static void note_success(struct volume_node *n)
{
	struct err e;

	n->trial.decided = true;
	if (store_meta_set(core_store(n->core), IMAGES_WORK, "1", &e) < 0)
		log_warn("that volumes are images could not be noted", "error=%s", e.msg);
}

/* Has the machine no images at all, or is it short of something now? */
static bool is_impossible(const struct err *why)
{
	return why->code == ERR_UNSUPPORTED && why->sys != EMFILE && why->sys != ENFILE &&
	       why->sys != EBUSY && why->sys != EAGAIN;
}

static void end_trial(struct volume_node *n, const struct err *why)
{
	struct volume_trial *t = &n->trial;

	t->running = false;
	if (why == NULL) {
		note_success(n);
	} else if (is_impossible(why)) {
		log_warn("volumes are directories without a limit of their size", "reason=%s",
			 why->msg);
		t->decided = n->no_images = true;
	} else {
		log_warn("whether volumes can be images is not known yet; tried again", "reason=%s",
			 why->msg);
		t->again_ns = clock_now_ns() + AGAIN_MS * CLOCK_MS;
	}
	completions_end_all(&t->waiters, NULL);
}

static void ask_storage(struct volume_node *n, enum storage_op op, completion_fn *on_done)
{
	struct storage_volume r = { .head = { .op = op, .deadline_ms = DEADLINE_MS },
				    .image = 1,
				    .bytes = BYTES };

	str_copy(r.volume, IMAGE);
	n->trial.job = (struct storage_job){ .done = { .on_done = on_done, .arg = n }, .fd = -1 };
	storage_link_ask(n->storage, &n->trial.job, &r, sizeof(r), NULL, 0);
}

static void on_removed(struct completion *done, const struct err *why)
{
	struct volume_node *n = done->arg;
	const struct volume_trial *t = &n->trial;

	if (t->mounted.code != ERR_NONE)
		end_trial(n, &t->mounted);
	else
		end_trial(n, why); /* after a success no later trial removes it */
}

static void on_opened(struct volume_open *o, int fd, const struct err *e)
{
	struct volume_node *n = o->arg;

	fd_close(fd);
	n->trial.mounted = e == NULL ? (struct err){ 0 } : *e;
	ask_storage(n, STORAGE_VOLUME_REMOVE, on_removed);
}

static void on_made(struct completion *done, const struct err *why)
{
	const struct store_volume row = { .kind = VOLUME_IMAGE, .id = IMAGE };
	struct volume_node *n = done->arg;

	if (why != NULL) {
		end_trial(n, why);
		return;
	}
	n->trial.open = (struct volume_open){ .on_done = on_opened, .arg = n };
	volume_open_start(n->core, &row, &n->trial.open);
}

static void begin_trial(struct volume_node *n)
{
	n->trial.running = true;
	ask_storage(n, STORAGE_VOLUME_MAKE, on_made);
}

void volume_trial_wait(struct volume_node *n, struct completion *w)
{
	completion_begin(w, core_loop(n->core), &n->trial.waiters);
	if (!n->trial.running)
		begin_trial(n);
}

void volume_trial_second(struct volume_node *n)
{
	const struct volume_trial *t = &n->trial;

	if (!t->decided && !t->running && clock_now_ns() >= t->again_ns &&
	    core_options(n->core)->has_volumes && storage_link_is_ready(n->storage))
		begin_trial(n);
}

void volume_trial_release(struct volume_node *n)
{
	storage_link_cancel(n->storage, &n->trial.job);
	volume_open_cancel(&n->trial.open);
	while (n->trial.waiters.first != NULL)
		completion_cancel(n->trial.waiters.first);
}
