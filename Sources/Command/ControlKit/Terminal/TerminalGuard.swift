import Glibc

/// The terminal that this process has changed, and how to restore it however the process ends.
///
/// There is at most one, in a place where a signal handler finds it. A handler may call very few
/// functions (signal-safety(7)), so it allocates no memory and takes no lock. Everything it touches is
/// allocated beforehand and never freed, because a handler can run at any time.
@safe enum TerminalGuard {
  private struct Kept {
    var input: Int32
    var output: Int32
    var modes: termios
    var wake: Int32
    var changeBack: StaticString

    /// Whether the terminal is in its changed state.
    var isChanged = false
  }

  // Set once, before the handlers that read it are installed; a handler can take no lock.
  private nonisolated(unsafe) static var kept: UnsafeMutablePointer<Kept>?

  /// The former actions of the signals, by number.
  // Set once, before the handlers that read it are installed.
  private nonisolated(unsafe) static var formerActions: UnsafeMutablePointer<sigaction>?

  private static let highestSignal = 64

  /// The signals of a program's own faults that it can handle.
  private static let fatal = [SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS]

  /// The signals from outside and from the terminal, which the loop receives through a pipe.
  private static let told =
    OutsideSignals.stopping + OutsideSignals.telling + [SIGTSTP, SIGCONT, SIGWINCH]

  /// Switches to the alternate screen, hides the cursor and turns line wrapping off.
  private static let change: StaticString = "\u{1b}[?1049h\u{1b}[?25l\u{1b}[?7l"
  private static let changeBack: StaticString =
    "\u{1b}[?2026l\u{1b}[0m\u{1b}[?7h\u{1b}[?25h\u{1b}[?1049l"

  /// Begins to handle signals, whose numbers arrive as bytes in the pipe `wake`.
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
    for number in told where !OutsideSignals.isIgnored(number) {
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

  /// Changes the terminal for drawing; call it again if a shell may have changed it back.
  static func enter() {
    guard let kept = unsafe kept else { return }
    var modes = unsafe kept.pointee.modes
    // Keys arrive one by one, without an echo. ^C and ^Z remain signals.
    modes.c_lflag &= ~tcflag_t(ICANON | ECHO)
    unsafe withUnsafeMutableBytes(of: &modes.c_cc) { bytes in
      unsafe bytes[Int(VMIN)] = 1
      unsafe bytes[Int(VTIME)] = 0
    }
    unsafe kept.pointee.isChanged = true
    unsafe tcsetattr(kept.pointee.input, TCSANOW, &modes)
    unsafe put(change, to: kept.pointee.output)
  }

  /// Restores the terminal; does nothing if it is not changed.
  static func leave() {
    guard let kept = unsafe kept, unsafe kept.pointee.isChanged else { return }
    unsafe kept.pointee.isChanged = false
    // If the user stopped the output with ^S, writing would block this process.
    unsafe tcflow(kept.pointee.output, TCOON)
    // The modes come first, because a user who sees the old screen may type.
    unsafe tcsetattr(kept.pointee.input, TCSANOW, &kept.pointee.modes)
    unsafe put(kept.pointee.changeBack, to: kept.pointee.output)
  }

  /// Stops until this process is continued, as the signal does by default.
  ///
  /// The loop does not receive the SIGCONT, because the caller knows when the stop is over.
  static func stop() {
    leave()
    signal(SIGTSTP, SIG_DFL)
    signal(SIGCONT, SIG_DFL)
    raise(SIGTSTP)
    listen(to: SIGTSTP)
    listen(to: SIGCONT)
  }

  /// Restores the terminal and the former actions of the signals.
  static func end() {
    leave()
    guard let actions = unsafe formerActions else { return }
    let heard = told.filter { !OutsideSignals.isIgnored($0) }
    for number in heard + fatal { unsafe sigaction(number, actions + Int(number), nil) }
  }

  /// Gives handlers a stack of their own, because a stack that has overflowed has no room for them.
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

  private static func put(_ text: StaticString, to descriptor: Int32) {
    _ = unsafe write(descriptor, text.utf8Start, text.utf8CodeUnitCount)
  }

  /// Handles a signal by passing it to the loop.
  private static let tell: @convention(c) (Int32) -> Void = { number in
    let error = errno
    var byte = UInt8(truncatingIfNeeded: number)
    if let kept = unsafe kept { _ = unsafe write(kept.pointee.wake, &byte, 1) }
    errno = error
  }

  /// Handles a fatal signal: restores the terminal, and lets the process die of the signal.
  private static let endBadly:
    @convention(c) (Int32, UnsafeMutablePointer<siginfo_t>?, UnsafeMutableRawPointer?) -> Void = {
      number, info, _ in
      leave()
      if let actions = unsafe formerActions {
        unsafe sigaction(number, actions + Int(number), nil)
      }
      // A fault recurs when the handler returns. A signal that was sent must be raised again.
      if let info = unsafe info, unsafe info.pointee.si_code > 0 { return }
      raise(number)
    }
}
