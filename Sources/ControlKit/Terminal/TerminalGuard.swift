import Glibc

/// A terminal that this process has changed, and how to change it back in whatever way it ends.
///
/// It lies where a signal handler finds it, and there is one at most. A handler may call next to
/// nothing (signal-safety(7)): no memory is got, no lock taken, and all it touches is there before,
/// and stays there, as a handler may be at work at any time.
@safe enum TerminalGuard {
  private struct Kept {
    var input: Int32
    var output: Int32
    var modes: termios
    var wake: Int32
    var changeBack: StaticString

    /// Whether the terminal is changed now.
    var isChanged = false
  }

  private nonisolated(unsafe) static var kept: UnsafeMutablePointer<Kept>?

  /// What the signals did before, by their numbers.
  private nonisolated(unsafe) static var formerActions: UnsafeMutablePointer<sigaction>?

  private static let highestSignal = 64

  /// All that ends a process which has done something wrong, and that it can still notice.
  private static let fatal = [SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS]

  /// What comes from outside, and what a terminal sends besides; the loop hears of it through a pipe.
  private static let told =
    OutsideSignals.stopping + OutsideSignals.telling + [SIGTSTP, SIGCONT, SIGWINCH]

  /// The other screen, no cursor, and no line that goes on in the next one.
  private static let change: StaticString = "\u{1b}[?1049h\u{1b}[?25l\u{1b}[?7l"
  private static let changeBack: StaticString =
    "\u{1b}[?2026l\u{1b}[0m\u{1b}[?7h\u{1b}[?25h\u{1b}[?1049l"

  /// Begins to hear of signals, which come out of `wake` as bytes with their numbers.
  static func begin(input: Int32, output: Int32, wake: Int32) {
    let place = UnsafeMutablePointer<Kept>.allocate(capacity: 1)
    unsafe place.initialize(
      to: Kept(
        input: input, output: output, modes: termios(), wake: wake, changeBack: changeBack))
    unsafe tcgetattr(input, &place.pointee.modes)
    unsafe kept = place
    let actions = UnsafeMutablePointer<sigaction>.allocate(capacity: highestSignal + 1)
    unsafe actions.initialize(repeating: sigaction(), count: highestSignal + 1)
    unsafe formerActions = actions
    for number in told where !isIgnored(number) {
      unsafe sigaction(number, nil, actions + Int(number))
      listen(to: number)
    }
    giveHandlersRoom()
    for number in fatal {
      var action = sigaction()
      unsafe action.__sigaction_handler.sa_sigaction = endBadly
      action.sa_flags = SA_SIGINFO | SA_ONSTACK
      unsafe sigaction(number, &action, actions + Int(number))
    }
  }

  /// Changes the terminal for drawing; once more if somebody may have changed it back.
  static func enter() {
    guard let kept = unsafe kept else { return }
    var modes = unsafe kept.pointee.modes
    // Keys come one by one and unseen. ^C and ^Z stay signals.
    modes.c_lflag &= ~tcflag_t(ICANON | ECHO)
    unsafe withUnsafeMutableBytes(of: &modes.c_cc) { bytes in
      unsafe bytes[Int(VMIN)] = 1
      unsafe bytes[Int(VTIME)] = 0
    }
    unsafe kept.pointee.isChanged = true
    unsafe tcsetattr(kept.pointee.input, TCSANOW, &modes)
    unsafe put(change, to: kept.pointee.output)
  }

  /// Changes the terminal back; nothing if it is as it was.
  static func leave() {
    guard let kept = unsafe kept, unsafe kept.pointee.isChanged else { return }
    unsafe kept.pointee.isChanged = false
    // Output that somebody has stopped with ^S would stop this process too.
    unsafe tcflow(kept.pointee.output, TCOON)
    // First: whoever sees that the screen is back may type.
    unsafe tcsetattr(kept.pointee.input, TCSANOW, &kept.pointee.modes)
    unsafe put(kept.pointee.changeBack, to: kept.pointee.output)
  }

  /// Does what the signal would do if nobody listened to it: stops until this process is continued.
  ///
  /// Whoever asks for it knows that it is over, so the loop does not hear of the continuation.
  static func stop() {
    leave()
    signal(SIGTSTP, SIG_DFL)
    signal(SIGCONT, SIG_DFL)
    raise(SIGTSTP)
    listen(to: SIGTSTP)
    listen(to: SIGCONT)
  }

  /// Leaves, and hears of no signals any more.
  static func end() {
    leave()
    guard let actions = unsafe formerActions else { return }
    let heard = told.filter { !isIgnored($0) }
    for number in heard + fatal { unsafe sigaction(number, actions + Int(number), nil) }
  }

  /// A stack that has overflown has no room for a handler.
  private static func giveHandlersRoom() {
    let size = 65_536
    let place = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: 16)
    var stack = unsafe stack_t(ss_sp: place, ss_flags: 0, ss_size: size)
    unsafe sigaltstack(&stack, nil)
  }

  private static func listen(to number: Int32) {
    var action = sigaction()
    unsafe action.__sigaction_handler.sa_handler = tell
    unsafe sigaction(number, &action, nil)
  }

  private static func isIgnored(_ number: Int32) -> Bool {
    var action = sigaction()
    guard unsafe sigaction(number, nil, &action) == 0 else { return false }
    let handler = unsafe unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self)
    return unsafe handler == unsafeBitCast(SIG_IGN, to: Int.self)
  }

  private static func put(_ text: StaticString, to descriptor: Int32) {
    _ = unsafe write(descriptor, text.utf8Start, text.utf8CodeUnitCount)
  }

  /// Handles a signal that the loop is to hear of.
  private static let tell: @convention(c) (Int32) -> Void = { number in
    let error = errno
    var byte = UInt8(truncatingIfNeeded: number)
    if let kept = unsafe kept { _ = unsafe write(kept.pointee.wake, &byte, 1) }
    errno = error
  }

  /// Handles a fatal signal: changes the terminal back, and dies of it as it would have done.
  private static let endBadly:
    @convention(c) (Int32, UnsafeMutablePointer<siginfo_t>?, UnsafeMutableRawPointer?) -> Void = {
      number, info, _ in
      leave()
      if let actions = unsafe formerActions {
        unsafe sigaction(number, actions + Int(number), nil)
      }
      // What has gone wrong goes wrong once more on return. What was sent has to be sent anew.
      if let info = unsafe info, unsafe info.pointee.si_code > 0 { return }
      raise(number)
    }
}
