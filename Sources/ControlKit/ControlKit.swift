import ProgramKit
public import SharedBreaker

/// The `cbctl` command line, as a function that any program can call.
public enum ControlKit {
  /// The version of the command and of the library in it.
  public static let version = SharedStore.version

  /// Runs the command line of this process, and returns how the process should end.
  public static func run() -> Ending { run(arguments: ThisProcess.arguments(), console: .system()) }

  /// Runs one command line and returns how it ended; it never ends the process.
  ///
  /// `arguments` are the words after the program's name, byte for byte. `options` says how stores
  /// are opened, so that a test can use its own clock.
  public static func run(
    arguments: [[UInt8]], console: Console, options: StoreOptions = StoreOptions()
  ) -> Ending {
    let request: ArgumentParser.Request
    do {
      request = try ArgumentParser.parse(arguments)
    } catch {
      _ = console.errorOutput("cbctl: \(VisibleText.bare(error.description))\n")
      return .exit(error.code)
    }
    switch request {
    case .help(let spec):
      return show(spec.map { HelpPage.of($0) } ?? HelpPage.overview(), on: console)
    case .version:
      return show("cbctl \(version) (SQLite \(SharedStore.sqliteVersion))\n", on: console)
    case .command(let parsed):
      return perform(parsed, console, options)
    }
  }

  /// Runs one command line whose words are all text.
  public static func run(
    arguments: [String], console: Console, options: StoreOptions = StoreOptions()
  ) -> Ending {
    run(arguments: arguments.map { Array($0.utf8) }, console: console, options: options)
  }

  private static func perform(
    _ parsed: ParsedCommand, _ console: Console, _ options: StoreOptions
  ) -> Ending {
    var options = options
    // No other command looks them up, because a directory of users on the network can be slow.
    if parsed.spec.actsForUser { options.user = options.user ?? console.user() }
    options.command = options.command ?? parsed.commandLine.first.map(Self.name)
    let context = CommandContext(console: console, global: parsed.global, storeOptions: options)
    defer { context.store.close() }
    do {
      return context.finish(try parsed.spec.perform(context, parsed))
    } catch {
      context.complain(error.description)
      return .exit(error.code)
    }
  }

  /// The name of a command, without its folder.
  private static func name(of command: [UInt8]) -> String {
    let name = command.split(separator: UInt8(ascii: "/")).last ?? []
    return String(decoding: name, as: UTF8.self)
  }

  private static func show(_ page: String, on console: Console) -> Ending {
    let context = CommandContext(
      console: console, global: GlobalOptions([:]), storeOptions: StoreOptions())
    context.print(page)
    return context.finish(.done)
  }
}

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
