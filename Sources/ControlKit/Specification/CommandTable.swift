extension CommandSpec {
  /// Every command, in the order of help.
  static let all: [CommandSpec] = [
    status, show, history, watch, wait, check, policy, reset, trip, force, run, acquire, report,
    fleet, page, metrics, delete, prune, export, importing, initialize, doctor, completion, help,
  ]

  /// The commands that only programs use, which no list for people shows.
  private static let hidden: [CommandSpec] = [complete]

  static func named(_ name: String) -> CommandSpec? { (all + hidden).first { $0.name == name } }
}
