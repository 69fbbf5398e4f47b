import Glibc
@_spi(Command) import SharedBreaker

/// A command behind its breaker, which is retried until it succeeds or a retry makes no sense.
struct GuardedCommand {
  var context: CommandContext
  var breaker: Breaker
  var commandLine: [[UInt8]]
  var timeout: Duration?
  var ignoredCodes: Set<Int32> = []
  var permanentCodes: Set<Int32> = []

  /// Codes by which the resource asks to be left alone, with the time if it is known.
  var heldCodes: [Int32: Duration?] = [:]

  /// The file into which the command writes the headers of HTTP answers.
  var headerFile: String?
  var retry = RetryPolicy.never

  /// The shell command that replaces a call that was rejected or has failed.
  var fallback: String?

  func run() throws(ControlError) -> Ending {
    var attempts = RetryPolicy.Attempts(retry)
    var last: CommandJudgement?
    var hasToldOfHold = false
    while true {
      let permit: Permit
      tellOfWait()
      do throws(BreakerError) { permit = try breaker.acquire(isRetry: last != nil) } catch {
        guard let last else { return try reject(error) }
        guard case .rejected(_, let rejection) = error else {
          say("not retried: \(error)")
          return end(last)
        }
        guard let wait = attempts.wait(after: rejection) else {
          say("not retried: \(rejection)")
          return end(last)
        }
        if !hasToldOfHold { say("waits on: \(rejection)") }
        hasToldOfHold = true
        Self.sleep(for: wait)
        continue
      }
      let judgement = attempt(permit)
      var asked: BreakerSnapshot?
      func rejection() -> Rejection? {
        asked = breaker.snapshot()
        return asked?.rejection.map { breaker.spread($0, for: retry) }
      }
      guard !judgement.isLast,
        let wait = attempts.wait(after: judgement.outcome, unless: rejection())
      else {
        if let asked { say("not retried: \(StateLine.words(of: asked))") }
        return end(judgement)
      }
      if let complaint = judgement.complaint { context.complain(complaint) }
      let word = judgement.outcome.isFailure ? "failed" : "was told to wait"
      say(
        "attempt \(attempts.ended) of \(retry.attempts) \(word): retrying in \(Self.words(of: wait))"
      )
      Self.sleep(for: wait)
      hasToldOfHold = false
      // If this attempt turns out to be the last, its message has already been printed.
      last = judgement
      last?.complaint = nil
    }
  }

  /// Tells a user at a terminal why nothing may happen for a while.
  private func tellOfWait() {
    guard context.console.hasTerminal else { return }
    let snapshot = breaker.snapshot()
    // A call inside of another one uses its room.
    if breaker.isInsideOfCall, snapshot.causeWithoutRoom != .rate { return }
    guard let patience = snapshot.policy.queueTimeout, patience > .zero,
      snapshot.mode != .observe,
      let obstacle = LimitWords.wait(snapshot)
    else { return }
    say("\(obstacle): may wait for its turn for up to \(DurationText.format(patience))")
  }

  /// Runs the command once, and reports the outcome to the breaker.
  private func attempt(_ permit: consuming Permit) -> CommandJudgement {
    let isUnguarded = context.warnIfUnguarded(breaker, "the command runs without its breaker")
    if !isUnguarded { context.warnIfUnlimited(breaker) }
    let dump = headerFile.map { HeaderDump(path: $0) }
    // A signal that comes after the command's end is for this process, but the outcome comes first.
    let relay = SignalRelay(hasOwnGroup: hasOwnGroup)
    let course = self.course(
      under: relay,
      of: commandLine, timeout: timeout, environment: permit.environment,
      interval: permit.kind == .probe ? renewalInterval : nil
    ) {
      // If the store is what fails, the next renewal may succeed.
      (try? permit.renew()) == false ? nil : renewalInterval
    }
    let answer = dump?.answer()
    let judgement = course.judged(
      ignoring: ignoredCodes, permanent: permanentCodes, holding: heldCodes, answer: answer)
    let verdict =
      switch judgement.outcome {
      case .success: permit.succeed(elapsed: course.elapsed)
      case .failure(let failure): permit.report(.failure(failure), elapsed: course.elapsed)
      case .hold: permit.report(judgement.outcome, elapsed: course.elapsed)
      case .ignored: permit.ignore()
      }
    relay.end()
    if let headerFile, answer == nil, course.end == .exited(0) {
      say(
        "no answer was written to \(VisibleText.quoted(headerFile)): the exit code alone was judged: "
          + "give the command the same file, as in 'curl -D FILE'")
    }
    if !isUnguarded,
      !context.warnIfUnguarded(breaker, "the outcome of the command is not recorded"),
      verdict == .refused
    {
      context.note(ControlError.refused(breaker.name).description)
    }
    if case .hold = judgement.outcome, let words = HoldWords.standing(breaker.snapshot()) {
      say(words)
    }
    return judgement
  }

  /// How often a probe renews its lease, so that two renewals in a row may fail.
  private var renewalInterval: Duration {
    max(breaker.snapshot().policy.probeTimeout / 3, .milliseconds(10))
  }

  /// Whether the commands have a group of their own, because no terminal signals them.
  private var hasOwnGroup: Bool { !context.console.hasTerminal }

  private func course(
    under relay: SignalRelay,
    of words: [[UInt8]], timeout: Duration?, environment: [String: String] = [:],
    interval: Duration? = nil, upkeep: () -> Duration? = { nil }
  ) -> CommandCourse {
    CommandCourse.of(
      words, timeout: timeout, under: relay, restoredSignals: context.console.restoredSignals,
      environment: environment,
      interval: interval, upkeep: upkeep)
  }

  private static func words(of wait: Duration) -> String {
    DurationText.format(.milliseconds(DurationText.milliseconds(wait)))
  }

  /// Sleeps before a retry; a signal that ends this process ends it here too.
  private static func sleep(for duration: Duration) {
    var asked = timespec(max(.zero, duration))
    var left = timespec()
    while unsafe nanosleep(&asked, &left) != 0, errno == EINTR { asked = left }
  }

  private func say(_ words: String) {
    context.note("\(VisibleText.name(breaker.name)): \(words)")
  }
}

/// Ending, with a fallback or without.
extension GuardedCommand {
  private func end(_ judgement: CommandJudgement) -> Ending {
    if let complaint = judgement.complaint { context.complain(complaint) }
    guard let fallback, judgement.lacksResult, !judgement.isLast else { return judgement.ending }
    return run(fallback)
  }

  private func reject(_ error: BreakerError) throws(ControlError) -> Ending {
    guard let fallback, case .rejected(_, let rejection) = error else {
      return try context.reject(error)
    }
    say("rejected: \(rejection): running the fallback instead")
    return run(fallback)
  }

  /// Runs the fallback, whose outcome the breaker does not count.
  private func run(_ fallback: String) -> Ending {
    let words = ["/bin/sh", "-c", fallback].map { Array($0.utf8) }
    let relay = SignalRelay(hasOwnGroup: hasOwnGroup)
    defer { relay.end() }
    let judgement = course(under: relay, of: words, timeout: nil)
      .judged(ignoring: [], permanent: [])
    if let complaint = judgement.complaint { context.complain(complaint) }
    return judgement.ending
  }
}

extension CommandContext {
  /// Warns if the store is unavailable, and returns whether it is.
  fileprivate func warnIfUnguarded(_ breaker: Breaker, _ consequence: String) -> Bool {
    guard case .unavailable(let error) = breaker.health else { return false }
    note("\(consequence): \(error.description)")
    return true
  }

  /// Warns if the breaker has a limit, and this process cannot see the calls of others.
  ///
  /// Such a process keeps to the limit alone, so one that makes a single call keeps to none.
  fileprivate func warnIfUnlimited(_ breaker: Breaker) {
    let snapshot = breaker.snapshot()
    guard snapshot.policy.maxConcurrent != nil, snapshot.limit == nil || !breaker.sharesLimit
    else { return }
    note(
      "the command runs without its limit: the calls under way cannot be counted in "
        + "\(VisibleText.bare(store.path))-slots: run 'cbctl doctor'")
  }
}
