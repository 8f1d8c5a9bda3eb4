/* cache_worker.c - theory of operation
 *
 * A job belongs to the loop's thread until cache_worker_add(), to the worker's thread until
 * worker_give_back(), and then to the loop's thread again, which calls on_done. The lock guards the
 * two lists only. The worker touches nothing but the job and its descriptor. */
#include "cache/cache_worker.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lib/base/sha256.h"

#define PIECE ((size_t)256 * 1024)

struct cache_worker {
	struct loop *loop;
	pthread_t thread;
	int wake; /* owned: an eventfd, read by the loop */
	struct loop_fd watch;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t more;
	struct cache_job *first, **end; /* to be done */
	struct cache_job *done;		/* the last one first */
};

/* Reads to the end of the file. */
static void worker_hash(struct cache_job *j)
{
	static _Thread_local uint8_t piece[PIECE];
	struct sha256 s;
	ssize_t n;

	sha256_init(&s);
	j->size = 0;
	while ((n = pread(j->fd, piece, sizeof(piece), (off_t)j->size)) > 0) {
		sha256_add(&s, piece, (size_t)n);
		j->size += (uint64_t)n;
	}
	j->error = n < 0 ? errno : 0;
	sha256_end(&s, j->sha256);
}

/* Waits until there is a job. */
static struct cache_job *worker_take(struct cache_worker *w)
{
	struct cache_job *j;

	(void)pthread_mutex_lock(&w->lock);
	while (w->first == NULL)
		(void)pthread_cond_wait(&w->more, &w->lock);
	j = w->first;
	w->first = j->next;
	if (w->first == NULL)
		w->end = &w->first;
	(void)pthread_mutex_unlock(&w->lock);
	return j;
}

static void worker_give_back(struct cache_worker *w, struct cache_job *j)
{
	const uint64_t one = 1;

	(void)pthread_mutex_lock(&w->lock);
	j->next = w->done;
	w->done = j;
	(void)pthread_mutex_unlock(&w->lock);
	(void)!write(w->wake, &one, sizeof(one)); /* it can only fail when it is set already */
}

static void *worker_run(void *arg)
{
	struct cache_worker *w = arg;

	for (;;) {
		struct cache_job *j = worker_take(w);

		if (j->is_hash)
			worker_hash(j);
		else
			j->error = fdatasync(j->fd) < 0 ? errno : 0;
		worker_give_back(w, j);
	}
	return NULL;
}

/* The list has the last job first, and is turned around. */
static void on_wake(struct loop_fd *f, uint32_t events)
{
	struct cache_worker *w = f->arg;
	struct cache_job *done, *in_order = NULL, *next;
	uint64_t n;

	(void)!read(w->wake, &n, sizeof(n));
	(void)pthread_mutex_lock(&w->lock);
	done = w->done;
	w->done = NULL;
	(void)pthread_mutex_unlock(&w->lock);
	for (; done != NULL; done = next) {
		next = done->next; /* alone: nothing is called */
		done->next = in_order;
		in_order = done;
	}
	for (; in_order != NULL; in_order = next) {
		/* alone: finished jobs are in no other list, and end themselves */
		next = in_order->next;
		in_order->on_done(in_order);
	}
}

void cache_worker_add(struct cache_worker *w, struct cache_job *j)
{
	j->next = NULL;
	(void)pthread_mutex_lock(&w->lock);
	*w->end = j;
	w->end = &j->next;
	(void)pthread_cond_signal(&w->more);
	(void)pthread_mutex_unlock(&w->lock);
}

/* The thread gets no signals. */
static int worker_start_thread(struct cache_worker *w)
{
	sigset_t all, before;
	int code;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	code = pthread_create(&w->thread, NULL, worker_run, w);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return code;
}

struct cache_worker *cache_worker_new(struct loop *l, struct err *e)
{
	struct cache_worker *w = calloc(1, sizeof(*w));

	if (w == NULL) {
		(void)err_set(e, ERR_SYSTEM, "out of memory");
		return NULL;
	}
	w->loop = l;
	w->end = &w->first;
	w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	w->watch = (struct loop_fd){ .fd = -1, .on_ready = on_wake, .arg = w };
	(void)pthread_mutex_init(&w->lock, NULL);
	(void)pthread_cond_init(&w->more, NULL);
	if (w->wake < 0 || loop_add(l, &w->watch, w->wake, EPOLLIN, e) < 0 ||
	    (errno = worker_start_thread(w)) != 0) {
		(void)err_sys(e, "thread of the cache");
		return NULL; /* the program ends */
	}
	return w;
}
