// Fetches a URL, and obeys the `Retry-After` of the server.
//
//     swift run url-fetch
//
// A server that answers 429 or 503 may say when to try again. That is better than any guess in a
// policy: no process of this host asks the server meanwhile. A 503 is a failure that opens the breaker
// for that time. A 429 is none: the server works, so the breaker stays closed and holds the calls.
//
// `curl` fetches the URL. The server is a small one inside this program, with prepared answers.

import Glibc
import SharedBreaker

/// Judges the answers of the server.
///
/// The breaker stays open for the time that the server names, up to the policy's `openMax`, or a
/// day if there is none. A 404 is a success: the question was bad, but the server works.
let http = Classifier<Answer>.values { answer in
  .http(status: answer.status, retryAfter: answer.retryAfter, permanent: [401])
}

func fetch(_ url: String, behind breaker: Breaker) throws {
  do {
    // A value that means failure is still returned. An error that `curl` throws, because it could
    // not connect or took too long, counts as a failure too, as all errors do by default.
    let answer = try breaker.run(classify: http) { try Curl.get(url) }
    let words = breaker.snapshot().hold == nil ? breaker.state.wireName : "held"
    print("the server answers \(answer.status); the breaker is \(words)")
  } catch BreakerError.rejected(_, let rejection) {
    let wait = rejection.retryAfter ?? .seconds(1)
    print("rejected at once; waiting for \(wait)")
    usleep(UInt32(wait / .microseconds(1)))
  }
}

var template = Array("/tmp/url-fetch.XXXXXX".utf8CString)
guard unsafe mkdtemp(&template) != nil else {
  unsafe perror("a directory in /tmp cannot be made")
  exit(1)
}
let directory = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)

// By its policy this breaker stays open for an hour. So where it is open for only a second below,
// the server has named that time. Two failures that name no time would open the breaker too.
let store = SharedStore(path: directory + "/breakers.db")
let breaker = try store.breaker(
  "example.org", policy: BreakerPolicy(maxFailures: 2, openFor: .seconds(3_600)))

let server = try Server(answering: [
  "200 OK", "500 Internal Server Error", "429 Too Many Requests\r\nRetry-After: 1",
  "503 Service Unavailable\r\nRetry-After: 1", "200 OK",
])
var fetches = 0
do {
  while server.answered < server.answers.count {
    fetches += 1
    try fetch(server.url, behind: breaker)
  }
  print("\(server.answered) of \(fetches) fetches reached the server; it was spared the others.")
} catch {
  print("no answer: \(error)")
}
let end = breaker.snapshot()

store.close()
for suffix in ["", "-wal", "-shm", "-counters", "-slots", "-lock"] {
  unsafe unlink(directory + "/breakers.db" + suffix)
}
unsafe rmdir(directory)
exit(end.trips == 1 && end.totals.holds == 1 && end.state == .closed ? 0 : 1)
