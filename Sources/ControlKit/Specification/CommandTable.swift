extension CommandSpec {
  /// Every command, in the order of help.
  static let all: [CommandSpec] = [
    status, show, history, page, check, policy, reset, trip, force, run, acquire, report, delete,
    initialize, help,
  ]

  static func named(_ name: String) -> CommandSpec? { all.first { $0.name == name } }
}
