/// How a command line ended, for the process to end the same way.
public enum Ending: Sendable, Hashable {
  /// With an exit code.
  case code(Int32)

  /// As the command that it ran did: killed by a signal.
  ///
  /// A shell stops its loop at ^C only if it sees what it ran die of the signal, so the process is
  /// to raise it on itself.
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
