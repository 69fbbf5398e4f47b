/// One scenario in one environment, and how it ended.
struct Cell: Sendable {
  enum Result: String {
    case planned = ""
    case passed = "ok"
    case failed = "RED"
    case leftOut = "-"
  }

  var environment: Environment
  var scenario: Scenario
  var result = Result.planned

  var title: String { "\(environment.name) / \(scenario.name)" }
}
