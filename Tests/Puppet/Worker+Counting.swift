import SharedBreaker
import TestSupport

extension Worker {
  /// `successes N`: makes N calls that succeed, one after the other.
  func successes(_ words: [String]) throws -> String {
    var answers: [String] = []
    for _ in 0..<(Int(words[0]) ?? 0) { answers.append(run(["ok"])) }
    return "ok \(answers.count("ok")) rejected \(answers.count("rejected"))"
  }

  /// `mixed N M`: makes N calls, every M-th of which fails.
  func mixed(_ words: [String]) throws -> String {
    let share = Int(words[1]) ?? 1
    var answers: [String] = []
    for call in 1...(Int(words[0]) ?? 1) {
      answers.append(run([call % share == 0 ? "fail" : "ok"]))
    }
    return "ok \(answers.count("ok")) failed \(answers.count("failed"))"
  }

  /// `locked-files`: makes a call, and returns the files of which pages are locked in memory then.
  func lockedFiles() -> String {
    let answer = run(["ok"])
    return answer == "ok 42" ? LockedMemory.files.sorted().joined(separator: " ") : answer
  }

  /// The calls and failures in the window, and the totals of successes, failures and rejections.
  func counts() -> String {
    let it = breaker.snapshot()
    return "window \(it.windowCalls) \(it.windowFailures) totals \(it.totals.successes)"
      + " \(it.totals.failures) \(it.totals.rejections)"
  }
}
