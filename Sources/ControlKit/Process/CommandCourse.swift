import ProgramKit
import SharedBreaker

/// What happened to a command, from its start to its end.
struct CommandCourse: Sendable, Hashable {
  enum End: Sendable, Hashable {
    case exited(Int32)
    case killed(signal: Int32)

    /// The command never started; the number is an errno.
    case notStarted(Int32)
  }

  /// The command's first word, for messages.
  var program: String
  var end: End
  var elapsed: Duration

  /// The timeout, if the command did not end in time.
  var overrun: Duration?

  /// Whether a signal told this process to stop meanwhile, which it passed on.
  var wasStopped = false

  /// Runs a command to its end; in its own group, what it leaves behind at a timeout is killed too.
  ///
  /// While the command runs, this calls `upkeep`, first after `interval` and then after as long as
  /// `upkeep` returns.
  static func of(
    _ commandLine: [[UInt8]], timeout: Duration?, inOwnGroup: Bool = true,
    restoredSignals: [Int32] = [], interval: Duration? = nil, upkeep: () -> Duration? = { nil }
  ) -> CommandCourse {
    let program = String(decoding: commandLine.first ?? [], as: UTF8.self)
    let start = ContinuousClock.now
    var course = CommandCourse(program: program, end: .exited(0), elapsed: .zero)
    do {
      let relay = SignalRelay(hasOwnGroup: inOwnGroup)
      defer { relay.end() }
      let pid = try ChildProcess.spawn(
        commandLine, inOwnGroup: inOwnGroup, restoredSignals: restoredSignals)
      let result = relay.wait(for: pid, timeout: timeout, interval: interval, upkeep: upkeep)
      course.end = result.end
      course.overrun = result.didTimeOut ? timeout : nil
      course.wasStopped = result.wasStopped
    } catch {
      course.end = .notStarted(error.number)
    }
    course.elapsed = ContinuousClock.now - start
    return course
  }
}

/// What the end of a command means to its breaker and to the caller.
struct CommandJudgement: Sendable, Hashable {
  var outcome: CallOutcome

  /// How this process should end.
  var ending: Ending

  /// A message in addition to the command's own.
  var complaint: String?

  /// Whether no retry and no fallback may follow, because this process was told to stop.
  var isLast = false
}

extension CommandCourse {
  /// Judges by the exit code: 0 is a success, a listed one ignored or permanent, others a failure.
  func judged(ignoring ignored: Set<Int32>, permanent: Set<Int32>) -> CommandJudgement {
    var judgement = judgement(ignored, permanent)
    judgement.isLast = wasStopped
    return judgement
  }

  private func judgement(_ ignored: Set<Int32>, _ permanent: Set<Int32>) -> CommandJudgement {
    let outcome = outcome(ignored, permanent)
    if let overrun {
      let words = "\(quotedProgram): stopped after \(DurationText.format(overrun))"
      return CommandJudgement(
        outcome: outcome, ending: .exit(.timedOut),
        complaint: "\(words): it took too long: give it a longer --timeout if it needs one")
    }
    switch end {
    case .exited(let code): return CommandJudgement(outcome: outcome, ending: .code(code))
    case .killed(let signal):
      return CommandJudgement(outcome: outcome, ending: .signal(signal))
    case .notStarted(let number):
      let isMissing = SystemError.isNotFound(number)
      return CommandJudgement(
        outcome: .ignored, ending: .exit(isMissing ? .notFound : .cannotRun),
        complaint: "\(quotedProgram) cannot be run: \(SystemError.text(number)): "
          + "check its name, its path and its permissions")
    }
  }

  private var quotedProgram: String { VisibleText.quoted(program) }

  private func outcome(_ ignored: Set<Int32>, _ permanent: Set<Int32>) -> CallOutcome {
    if let overrun {
      return .failure(error: "timed out after \(DurationText.format(overrun))")
    }
    switch end {
    case .notStarted: return .ignored
    case .exited(0): return .success
    case .exited(let code):
      // The exit code of a command that was told to stop says nothing about the resource.
      if wasStopped || ignored.contains(code) { return .ignored }
      let error = "exit code \(code)"
      return permanent.contains(code)
        ? .permanentFailure(error: error) : .failure(error: error)
    case .killed(let signal):
      return wasStopped ? .ignored : .failure(error: "killed by signal \(signal)")
    }
  }
}
