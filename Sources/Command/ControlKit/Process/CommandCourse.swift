import ProgramKit
import SharedBreaker

@unsafe @preconcurrency import Glibc

/// The course of a command, from its start to its end.
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

  /// Whether a signal, which was passed on, told this process to stop meanwhile.
  var wasStopped = false

  /// Runs a command to its end; after a timeout, the rest of a group of its own is killed too.
  ///
  /// The relay passes on the signals that this process gets, and goes on to block them until its caller ends it.
  /// While the command runs, this calls `upkeep`, first after `interval` and then after the time that
  /// `upkeep` last returned.
  static func of(
    _ commandLine: [[UInt8]], timeout: Duration?, under relay: SignalRelay,
    restoredSignals: [Int32] = [], environment: [String: String] = [:], interval: Duration? = nil,
    upkeep: () -> Duration? = { nil }
  ) -> CommandCourse {
    let program = String(decoding: commandLine.first ?? [], as: UTF8.self)
    let start = ContinuousClock.now
    var course = CommandCourse(program: program, end: .exited(0), elapsed: .zero)
    do {
      let pid = try ChildProcess.spawn(
        commandLine, inOwnGroup: relay.hasOwnGroup, restoredSignals: restoredSignals,
        adding: environment)
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

/// The consequences of a command's end for its breaker and for the caller.
struct CommandJudgement: Sendable, Hashable {
  var outcome: CallOutcome

  /// How this process should end.
  var ending: Ending

  /// A message in addition to the command's own.
  var complaint: String?

  /// Whether no retry and no fallback may follow, because this process was told to stop.
  var isLast = false

  /// Whether the command has not done what its caller wanted, which a fallback then does.
  ///
  /// A resource that asks to be left alone has not failed, but unless the command ended with 0, it gave nothing either.
  var lacksResult: Bool {
    if case .hold = outcome { ending != .code(0) } else { outcome.isFailure }
  }
}

extension CommandCourse {
  /// Judges the exit code: 0 is a success, a listed one is ignored, permanent or asks to be left alone, others are
  /// failures.
  ///
  /// An answer of HTTP is judged instead of a code that is not listed. If it is a failure or asks to be left alone, that
  /// is so whatever the code is. A code other than 0 after an answer below 400 is a failure: the transfer broke off.
  func judged(
    ignoring ignored: Set<Int32>, permanent: Set<Int32>, holding held: [Int32: Duration?] = [:],
    answer: HTTPAnswer? = nil
  ) -> CommandJudgement {
    var judgement = judgement(outcome(ignored, permanent, held, answer))
    judgement.isLast = wasStopped
    return judgement
  }

  private func judgement(_ outcome: CallOutcome) -> CommandJudgement {
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

  private func outcome(
    _ ignored: Set<Int32>, _ permanent: Set<Int32>, _ held: [Int32: Duration?],
    _ answer: HTTPAnswer?
  ) -> CallOutcome {
    let judged = answer.map { CallOutcome.http(status: $0.status, headers: $0.headers) }
    // A server has asked to be left alone, however the command has ended after that.
    let hold: CallOutcome? = if case .hold = judged { judged } else { nil }
    if let overrun {
      return hold ?? .failure(error: "timed out after \(DurationText.format(overrun))")
    }
    switch end {
    case .notStarted: return .ignored
    case .exited(let code):
      let error = "exit code \(code)"
      if code != 0 {
        // The exit code of a command that was told to stop tells nothing about the resource.
        if wasStopped { return hold ?? .ignored }
        if ignored.contains(code) { return .ignored }
        if let time = held[code] { return .hold(for: time, reason: error) }
        if permanent.contains(code) { return .permanentFailure(error: error) }
      }
      // A proxy's refusal, 407, comes from no server.
      if let answer, let judged,
        judged != .success || (answer.status >= 400 && answer.status != 407)
      {
        return judged
      }
      return code == 0 ? .success : .failure(error: error)
    case .killed(let signal):
      return hold ?? (wasStopped ? .ignored : .failure(error: "killed by signal \(signal)"))
    }
  }
}

/// Starts commands that share the streams of this process, and its environment but for a few words.
enum ChildProcess {
  /// The errno of a command that could not be started.
  struct SpawnError: Error { var number: Int32 }

  /// Starts a command, found by PATH, in which no signal is blocked.
  ///
  /// In a group of its own, the command and what it starts can be signalled together. In the group of
  /// this process, ^C and ^Z of the terminal reach the command, and it may use the terminal.
  static func spawn(
    _ commandLine: [[UInt8]], inOwnGroup: Bool, restoredSignals: [Int32],
    adding environment: [String: String] = [:]
  ) throws(SpawnError) -> pid_t {
    var attributes = posix_spawnattr_t()
    unsafe posix_spawnattr_init(&attributes)
    defer { unsafe posix_spawnattr_destroy(&attributes) }
    var mask = sigset_t()
    unsafe sigemptyset(&mask)
    var restored = sigset_t()
    unsafe sigemptyset(&restored)
    for number in restoredSignals { unsafe sigaddset(&restored, number) }
    unsafe posix_spawnattr_setsigmask(&attributes, &mask)
    unsafe posix_spawnattr_setsigdefault(&attributes, &restored)
    var flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF
    if inOwnGroup { flags |= POSIX_SPAWN_SETPGROUP }
    unsafe posix_spawnattr_setpgroup(&attributes, 0)
    unsafe posix_spawnattr_setflags(&attributes, Int16(flags))

    let words = unsafe commandLine.map { word in
      unsafe (word + [0]).withUnsafeBytes { bytes in
        unsafe bytes.baseAddress.flatMap { unsafe strdup($0.assumingMemoryBound(to: CChar.self)) }
      }
    }
    defer { unsafe words.forEach { unsafe free($0) } }
    var pid = pid_t()
    guard let program = unsafe words.first ?? nil, unsafe program.pointee != 0 else {
      // An empty name would match a directory of PATH.
      throw SpawnError(number: ENOENT)
    }
    let settings = unsafe environment.map { name, value in unsafe strdup("\(name)=\(value)") }
    defer { unsafe settings.forEach { unsafe free($0) } }
    let variables = unsafe inherited(but: environment) + settings + [nil]
    let number = unsafe posix_spawnp(&pid, program, nil, &attributes, words + [nil], variables)
    if number == ENOEXEC, let line = BareScript.commandLine(commandLine) {
      return try spawn(
        line, inOwnGroup: inOwnGroup, restoredSignals: restoredSignals, adding: environment)
    }
    if number != 0 { throw SpawnError(number: number) }
    return pid
  }

  /// The settings of this process's environment, without those of some names.
  private static func inherited(
    but others: [String: String]
  ) -> [UnsafeMutablePointer<CChar>?] {
    var settings: [UnsafeMutablePointer<CChar>?] = unsafe []
    var next = unsafe environ
    while let setting = unsafe next.pointee {
      let isOther = others.keys.contains { name in
        let prefix = name + "="
        return unsafe strncmp(setting, prefix, prefix.utf8.count) == 0
      }
      if !isOther { unsafe settings.append(setting) }
      unsafe next += 1
    }
    return unsafe settings
  }
}

extension SystemError {
  /// Whether an errno means that there is no such program, which shells report as 127.
  fileprivate static func isNotFound(_ number: Int32) -> Bool {
    number == ENOENT || number == ENOTDIR
  }
}

/// A script without an interpreter line, which the system cannot run, but shells, `env` and `nice` do.
private enum BareScript {
  private static let shell = Array("/bin/sh".utf8)
  private static let slash = UInt8(ascii: "/")

  /// The command line that runs the script with a shell; nil if the program is no such script.
  static func commandLine(_ words: [[UInt8]]) -> [[UInt8]]? {
    guard let program = words.first, program != shell,
      let file = places(of: program).first(where: isExecutable), isText(file)
    else { return nil }
    return [shell, Array("--".utf8), file] + words.dropFirst()
  }

  private static func places(of program: [UInt8]) -> [[UInt8]] {
    if program.contains(slash) { return [program] }
    let path = unsafe getenv("PATH").map { text in
      unsafe UnsafeRawBufferPointer(start: text, count: strlen(text)).map { $0 }
    }
    return (path ?? Array("/bin:/usr/bin".utf8))
      .split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false)
      .map { $0.isEmpty ? program : $0 + [slash] + program }
  }

  private static func isExecutable(_ file: [UInt8]) -> Bool {
    let path = file.map { CChar(bitPattern: $0) } + [0]
    var status = stat()
    guard unsafe stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return false }
    return unsafe access(path, X_OK) == 0
  }

  /// Whether the file is text, and not a program for another machine that a shell would misread.
  private static func isText(_ file: [UInt8]) -> Bool {
    let descriptor = unsafe open(file.map { CChar(bitPattern: $0) } + [0], O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return false }
    defer { close(descriptor) }
    var beginning = [UInt8](repeating: 0, count: 128)
    let count = unsafe read(descriptor, &beginning, beginning.count)
    return count >= 0 && !beginning.prefix(count).contains(0)
  }
}
