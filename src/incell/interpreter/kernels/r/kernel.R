# kernel.R - runs cells of R. Started by cordon-interpreter (Rscript) with descriptor 3 = a socket to it, one JSON object
# per line each way. Output of cells goes straight to descriptors 1 and 2, which are pipes to the server.
#
# R cannot open a descriptor that is a socket: `cat` reads it for R all the time, and another `cat` writes to it for each
# message, and has ended before R goes on: so messages and output keep their order. Base R is enough. With the package
# repr, tables are also given as HTML, Markdown and LaTeX.
#
# What must not change: every execute request is answered by one `done`; interrupts reach only the cell, never the loop.

local({
	suppressWarnings(Sys.setlocale("LC_CTYPE", "C.UTF-8"))
	options(warn = 1, bitmapType = "cairo", width = 120, device = function(...) open_device())
	requests <- pipe("trap '' INT; cat <&3 &", "r") # in the background: R waits for its pipes' programs when it ends
	count <- 0L
	plots <- NULL # the pattern of the plots' file names, when there is a device
	failed <- FALSE

	# --- JSON

	quoted <- function(text) {
		text <- iconv(paste(text, collapse = "\n"), "", "UTF-8", sub = "byte")
		code <- utf8ToInt(text)
		if (length(code) == 0 || anyNA(code)) return('""')
		out <- intToUtf8(code, multiple = TRUE)
		plain <- code >= 32L & code < 127L & code != 34L & code != 92L
		high <- !plain & code > 0xffffL
		low <- !plain & !high
		out[low] <- sprintf("\\u%04x", code[low])
		rest <- code[high] - 0x10000L
		out[high] <- sprintf("\\u%04x\\u%04x", 0xd800L + rest %/% 1024L, 0xdc00L + rest %% 1024L)
		paste0('"', paste(out, collapse = ""), '"')
	}

	object <- function(fields) paste0("{", paste0('"', names(fields), '":', fields, collapse = ","), "}")

	unquoted <- function(token) { # a string of JSON is one of R, but for these
		token <- gsub("\\u0000", "", token, fixed = TRUE)
		pairs <- gregexpr("\\\\u[dD][89abAB]..\\\\u[dD][c-fC-F]..", token)
		regmatches(token, pairs) <- lapply(regmatches(token, pairs), function(found) {
			high <- strtoi(substr(found, 3, 6), 16L) - 0xd800L
			low <- strtoi(substr(found, 9, 12), 16L) - 0xdc00L
			sprintf("\\U%08x", 0x10000L + high * 1024L + low)
		})
		parse(text = token, keep.source = FALSE)[[1]]
	}

	# The server's lines: objects of strings, numbers, true and false, and of such objects.
	parsed <- function(line) {
		tokens <- regmatches(line, gregexpr('"(?:[^"\\\\]++|\\\\.)*+"|[{}]|[a-z0-9.-]+', line, perl = TRUE))[[1]]
		at <- 1L
		value <- function() {
			token <- tokens[at]
			at <<- at + 1L
			if (startsWith(token, '"')) return(unquoted(token))
			if (token != "{") return(token)
			found <- list()
			while (tokens[at] != "}") {
				name <- unquoted(tokens[at])
				at <<- at + 1L
				found[[name]] <- value()
			}
			at <<- at + 1L
			found
		}
		value()
	}

	# --- messages

	send <- function(...) {
		link <- pipe("trap '' INT; exec cat >&3", "w")
		on.exit(close(link))
		writeLines(c(...), link)
	}

	fail <- function(name, value, traceback = paste0(name, ": ", value)) {
		failed <<- TRUE
		send(object(c(type = '"error"', name = quoted(name), value = quoted(value), traceback = quoted(traceback))))
	}

	result <- function(fields, main) {
		send(object(c(type = '"result"', is_main_result = if (main) "true" else "false", fields)))
	}

	# --- values

	tables <- function(value) { # what the package repr has for them
		if (!(is.data.frame(value) || is.matrix(value)) || !requireNamespace("repr", quietly = TRUE)) return(NULL)
		kinds <- list(html = repr::repr_html, markdown = repr::repr_markdown, latex = repr::repr_latex)
		found <- lapply(kinds, function(kind) tryCatch(kind(value), error = function(e) NULL))
		vapply(Filter(is.character, found), quoted, "")
	}

	show_value <- function(value, main) {
		text <- utils::capture.output(if (isS4(value)) methods::show(value) else print(value))
		if (length(text) > 0) result(c(text = quoted(text), tables(value)), main) # plots print nothing
	}

	# --- plots: pages of one device for each cell, as PNG

	open_device <- function() {
		plots <<- paste0(tempfile("plot"), "-%03d.png")
		grDevices::png(plots, width = 840, height = 840, res = 120)
	}

	base64 <- function(bytes) {
		n <- length(bytes)
		bytes <- as.integer(c(bytes, raw((3L - n %% 3L) %% 3L)))
		a <- bytes[c(TRUE, FALSE, FALSE)]
		b <- bytes[c(FALSE, TRUE, FALSE)]
		c <- bytes[c(FALSE, FALSE, TRUE)]
		six <- rbind(a %/% 4L, (a %% 4L) * 16L + b %/% 16L, (b %% 16L) * 4L + c %/% 64L, c %% 64L)
		out <- c(LETTERS, letters, 0:9, "+", "/")[six + 1L]
		if (n %% 3L > 0) out[seq(length(out) - 2L + n %% 3L, length(out))] <- "="
		paste(out, collapse = "")
	}

	show_plots <- function() {
		if (is.null(plots)) return()
		grDevices::graphics.off()
		pattern <- sub("%03d", "[0-9]+", basename(plots), fixed = TRUE)
		for (file in sort(list.files(dirname(plots), pattern, full.names = TRUE))) {
			png <- base64(readBin(file, "raw", file.size(file)))
			result(c(png = paste0('"', png, '"'), text = '"plot"'), FALSE)
			unlink(file)
		}
		plots <<- NULL
	}

	# --- running a cell

	frames <- function(calls) { # those of the cell: below the kernel's own, above the handler's
		text <- vapply(calls, function(call) paste(deparse(call, nlines = 1L), collapse = ""), "")
		first <- max(c(0L, grep("withVisible(eval(", text, fixed = TRUE)))
		text <- text[seq_along(text) > first + 2L]
		text[!grepl("^(\\.handleSimpleError|h\\(simpleError|frames\\(|\\(function \\(e\\))", text)]
	}

	on_error <- function(e) {
		call <- conditionCall(e)
		stack <- frames(sys.calls())
		ours <- is.null(call) || length(stack) == 0
		head <- if (ours) "Error: " else paste0("Error in ", paste(deparse(call, nlines = 1L), collapse = ""), ": ")
		lines <- if (length(stack) > 0) c("Traceback:", sprintf("%d. %s", seq_along(stack), stack))
		name <- if (inherits(e, "simpleError")) "Error" else class(e)[1]
		fail(name, conditionMessage(e), paste(c(paste0(head, conditionMessage(e)), lines), collapse = "\n"))
		invokeRestart("cordon_end")
	}

	evaluate <- function(code) {
		expressions <- tryCatch(parse(text = code, keep.source = FALSE), error = function(e) {
			fail("ParseError", conditionMessage(e))
			NULL
		})
		for (i in seq_along(expressions)) {
			got <- allowInterrupts(withVisible(eval(expressions[[i]], globalenv())))
			if (got$visible) allowInterrupts(show_value(got$value, i == length(expressions)))
		}
	}

	run <- function(code) {
		# a signal that came between two cells is dropped
		tryCatch(allowInterrupts(Sys.sleep(0)), interrupt = function(i) NULL)
		tryCatch(
			withRestarts(withCallingHandlers(evaluate(code), error = on_error), cordon_end = function() NULL),
			interrupt = function(i) fail("Interrupted", "the execution was interrupted")
		)
		tryCatch(show_plots(), error = function(e) if (!failed) fail("Error", conditionMessage(e)))
	}

	set_env <- function(env) if (length(env) > 0) do.call(Sys.setenv, as.list(env))

	execute <- function(request) {
		silent <- identical(request$silent, "true")
		before <- Sys.getenv(names(request$env), unset = NA, names = TRUE)
		set_env(request$env)
		failed <<- FALSE
		if (!silent) {
			count <<- count + 1L
			send(object(c(type = '"count"', execution_count = count)))
		}
		run(request$code)
		Sys.unsetenv(names(before)[is.na(before)])
		set_env(before[!is.na(before)])
		send(object(c(type = '"done"', id = request$id)))
	}

	# quit() in a cell ends the context, and says so
	quit <- function(save = "no", status = 0, runLast = FALSE) {
		fail("Quit", "quit() ended the context: its variables are gone")
		base::quit("no", status, FALSE)
	}
	attach(list(q = quit, quit = quit), name = "cordon", warn.conflicts = FALSE)

	send('{"type":"ready"}')
	suspendInterrupts(repeat {
		line <- readLines(requests, 1L)
		if (length(line) == 0) base::quit("no", 0, FALSE)
		request <- parsed(line)
		if (identical(request$op, "env")) set_env(request$env)
		if (identical(request$op, "execute")) execute(request)
	})
})
