import Glibc
import TestSupport

private func usage() -> Never {
  let bytes = Array("environments: usage: environments [--only TEXT] [--jobs N] [--list]\n".utf8)
  _ = unsafe write(2, bytes, bytes.count)
  exit(64)
}

var matrix = Matrix()
var isList = false
var words = CommandLine.arguments.dropFirst()
while let word = words.popFirst() {
  switch word {
  case "--only":
    guard let text = words.popFirst() else { usage() }
    matrix.only = text
  case "--jobs":
    guard let jobs = words.popFirst().flatMap({ Int($0) }), jobs > 0 else { usage() }
    matrix.jobs = jobs
  case "--list": isList = true
  default: usage()
  }
}
if isList {
  print("Environments:")
  for environment in matrix.environments {
    print("  \(environment.name): \(environment.summary)")
  }
  print("Scenarios:")
  for scenario in matrix.scenarios { print("  \(scenario.name): \(scenario.summary)") }
} else {
  exit(matrix.run() ? 0 : 1)
}
