/* options.c - how sanitized builds of cordond and cordon-egress report; linked into them only. The
 * supervisor passes no environment on, so that ASAN_OPTIONS does not reach them.
 *
 * No search for leaks: it needs ptrace and clone, which their filters of system calls refuse. A
 * small quarantine, so that tests can tell memory that is kept from memory that was freed.
 */
const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

const char *__asan_default_options(void)
{
	return "detect_leaks=0:quarantine_size_mb=16:malloc_context_size=12:"
	       "allocator_release_to_os_interval_ms=1000";
}

const char *__ubsan_default_options(void)
{
	return "print_stacktrace=1:halt_on_error=1";
}
