/// How a command line ended, so that the process can end the same way.
public enum Ending: Sendable, Hashable {
  /// With an exit code.
  case code(Int32)

  /// Killed by a signal, as the command that it ran.
  ///
  /// A shell stops its loop at ^C only if the program that it ran dies of the signal, so the
  /// process must raise the signal on itself.
  case signal(Int32)

  /// The code that a shell sees in either case.
  public var code: Int32 {
    switch self {
    case .code(let code): code
    case .signal(let number): 128 + number
    }
  }

  static let done = exit(.done)

  static func exit(_ code: ExitCode) -> Ending { .code(code.rawValue) }
}
