"""Which of many versions broke it? A search over noisy answers, step by step.

`change_point` says how likely each version is the first bad one, `search` which answers to ask
for next and when enough is known, `checks` whether more of them take that back; both speak in
`rounds`, which `asking` fills and `counts` adds up. `hunks` says how the parts of one change
become versions, `scan` how steps are searched where an oracle is not noisy. None of these asks
anybody: a search says which samples it wants and is told what they showed.

`trials` are answers at one step and `rollouts` whole free runs, of `versions`; `course` brings a
search and its samples together. `share` says when the samples of a single version are clear, and
`expected_samples` about how many a search will want.
"""
