extension CommandSpec {
  /// Every command, in the order of help.
  static let all: [CommandSpec] = [
    status, show, history, watch, wait, check, policy, reset, trip, force, run, acquire, report,
    page, metrics, delete, prune, export, importing, initialize, doctor, completion, help,
  ]

  /// Those that programs use, and that no list for people has.
  private static let hidden: [CommandSpec] = [complete]

  static func named(_ name: String) -> CommandSpec? { (all + hidden).first { $0.name == name } }
}
