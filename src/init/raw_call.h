/* raw_call.h - a system call that leaves errno alone: returns what the kernel does, so a failure is
 * -errno. For code that shares its memory with another process (spawn_child.h). */
#pragma once

#include <sys/syscall.h>

#if defined(__x86_64__)
static inline long raw_call(long nr, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return ret;
}
#elif defined(__aarch64__)
static inline long raw_call(long nr, long a, long b, long c, long d)
{
	register long x8 __asm__("x8") = nr, x0 __asm__("x0") = a, x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c, x3 __asm__("x3") = d;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
}
#else
#error "raw_call() has to be written for this processor"
#endif

static inline long raw_ptr(const void *p)
{
	return (long)p;
}
