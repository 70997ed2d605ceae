"""The words by which `build_drug_names.py` reads drug names; written for medstress."""

from __future__ import annotations

SALTS = """
acefyllinate aceponate acetonide aceturate acetylsalicylate acistrate alafenamide aluminium
amidotrizoate aminosalicylate ammonium anhydrate anisatil arginate ascorbate axetil bencyclane
benzathine besilate biphosphate bisulphate borate buciclate bunod butylbromide butyrate camsilate
caproate caprylate carbamate choline cilexetil cinnamate clofibrol closylate complex conjugate
cyclamate cyclosilicate cyclotate cypionate decahydrate decanoate diaspartate dibasic dibutyrate
dicalcium dichloride diethylamine difumarate digluconate dihydrobromide diisethionate
diisopropylamine dilaurate dimethylamine dimolybdate dipivoxil dipotassium dipropionate disoproxil
docusil dodecahydrate dried edamine eglumine elbuate embonate enacarbil enantate enanthate ester
esters estolate etabonate etexilate ethanesulfonate ethyl ethylsuccinate etiprate fendizoate
formate fosamil furifosmin furoate gamolenate gentisate glucarate gluceptate glucuronate glutamate
glycerophosphate hemiheptahydrate hemipentahydrate heptahydrate hexacetonide hexahydrate hexanoate
hibenzate human hyaluronate hydrabamine hydrate hydriodide hydrofluoride hydrogen hydroiodide
hydrous hydroxide hydroxybenzoate hydroxynaphthoate isobutyrate isonicotinate kit laurate lauroxil
lauryl laurylsulfate levulinate lysinate magnesiumtrihydrate malonate mandelate marboxil mebutate
medocaril medoxomil megallate mesilate mesylates metembonate methanesulfonate methiodide
methionate methobromide methonitrate methyl methylsulphate metilsulfate micronised micronized
mofetil monobasic monohydrochloride mucate myristate napadisilate naphthoate nicotinate
nonahydrate octahydrate octanoate oleate orotate oxide oxoglurate oxybate palmitate pantothenate
pendetide pentahydrate pentasodium phenpropionate phenylacetate phenylbutyrate phosphates
phthalate picolinate picrate pidolate pivalate pivoxetil pivoxil polacrilex polistirex
polygalacturonate probutate propionate proxetil pyrophosphate pyruvate recombinant resinate
salicylate sebacate sesquihydrate sodique sorbate stinoprate suleptanate sulfonate sulfosalicylate
sulphate synthetic tebutate teoclate terephthalate tetrachloride theoclate thiocyanate
timonacicate trelamine triacetate triethiodide trifenatate triflate trifluoroacetate triflutate
trimetaphosphate triolamine tripalmitate tripotassium tritosylate undecanoate undecylate
undecylenate valerate xinafoate
"""
"""Salts, hydrates, esters and carriers beyond those of the candidates' table. A prodrug that is
always swallowed as an ester (medoxomil, proxetil) goes by the name of what it becomes."""

NEVER_ALONE = """
acetyl aluminium amino anhydrous antimony arsenic benzoyl benzyl bicarbonate boron butyl carbon
carbonate cetyl chloride choline chromic chromium cupric cuprous diethyl dimethyl ethyl ferric
ferrous glycerol glyceryl gold hydrogen hydrous iodine isopropyl isosorbide manganous mercuric
mercurous methyl nickel nitric nitrous octyl pentaerythritol phenyl potassium propylene salicylic
silver stannous stearyl sucrose sulfur titanium triethyl trolamine urea vitamin zinc
"""
"""What no stripping may leave: a metal, an ion, a group, an alcohol that esters are made of."""

SPELLINGS = """
acetylsalicylic acid = aspirin; asa = aspirin; adrenaline = epinephrine;
noradrenaline = norepinephrine; frusemide = furosemide; lignocaine = lidocaine;
pethidine = meperidine; thiopentone = thiopental; phenobarbitone = phenobarbital;
pentobarbitone = pentobarbital; amylobarbitone = amobarbital; quinalbarbitone = secobarbital;
methohexitone = methohexital; glibenclamide = glyburide; rifampicin = rifampin;
isoprenaline = isoproterenol; orciprenaline = metaproterenol; ciclosporin = cyclosporine;
cyclosporin = cyclosporine; cyclosporin a = cyclosporine; cholestyramine = colestyramine;
trimeprazine = alimemazine; bendrofluazide = bendroflumethiazide; cephalexin = cefalexin;
cephalothin = cefalotin; cephazolin = cefazolin; cephradine = cefradine;
chlormethine = mechlorethamine; chlorthalidone = chlortalidone; dicyclomine = dicycloverine;
dothiepin = dosulepin; flupenthixol = flupentixol; indomethacin = indometacin;
mesalamine = mesalazine; methylene blue = methylthioninium chloride; oestradiol = estradiol;
oestriol = estriol; oestrone = estrone; sulphasalazine = sulfasalazine;
sulphadiazine = sulfadiazine; sulphadoxine = sulfadoxine; sulphapyridine = sulfapyridine;
sulphinpyrazone = sulfinpyrazone; sulphacetamide = sulfacetamide;
sulphamethoxazole = sulfamethoxazole; thyroxine = levothyroxine; l-thyroxine = levothyroxine;
triiodothyronine = liothyronine; suxamethonium = succinylcholine; scoline = succinylcholine;
hyoscine = scopolamine; eserine = physostigmine; glyceryl trinitrate = nitroglycerin;
gtn = nitroglycerin; nitroglycerine = nitroglycerin; vitamin c = ascorbic acid;
vitamin b1 = thiamine; vitamin b2 = riboflavin; vitamin b3 = niacin; nicotinic acid = niacin;
vitamin b6 = pyridoxine; vitamin b12 = cyanocobalamin; vitamin b9 = folic acid;
folate = folic acid; vitamin k1 = phytonadione; vitamin k = phytonadione;
phylloquinone = phytonadione; vitamin e = alpha tocopherol; vitamin d3 = cholecalciferol;
vitamin d2 = ergocalciferol; vitamin a = retinol; 5-fluorouracil = fluorouracil;
5-fu = fluorouracil; 5 fu = fluorouracil; 6-mercaptopurine = mercaptopurine;
6-mp = mercaptopurine; 6-thioguanine = thioguanine; tioguanine = thioguanine; ara-c = cytarabine;
cytosine arabinoside = cytarabine; actinomycin d = dactinomycin; actinomycin-d = dactinomycin;
adriamycin = doxorubicin; mitomycin c = mitomycin; l-asparaginase = asparaginase;
bcnu = carmustine; ccnu = lomustine; dtic = dacarbazine; all-trans retinoic acid = tretinoin;
atra = tretinoin; 13-cis-retinoic acid = isotretinoin; cis-platinum = cisplatin;
cisplatinum = cisplatin; azidothymidine = zidovudine; azt = zidovudine; zdv = zidovudine;
3tc = lamivudine; ddi = didanosine; d4t = stavudine; ddc = zalcitabine; inh = isoniazid;
pas = aminosalicylic acid; para-aminosalicylic acid = aminosalicylic acid; l-dopa = levodopa;
levo-dopa = levodopa; dopa = levodopa; hctz = hydrochlorothiazide;
tmp-smx = sulfamethoxazole+trimethoprim; co-trimoxazole = sulfamethoxazole+trimethoprim;
cotrimoxazole = sulfamethoxazole+trimethoprim;
trimethoprim-sulfamethoxazole = sulfamethoxazole+trimethoprim;
sulfamethoxazole-trimethoprim = sulfamethoxazole+trimethoprim;
co-amoxiclav = amoxicillin+clavulanic acid; amoxicillin-clavulanate = amoxicillin+clavulanic acid;
co-careldopa = carbidopa+levodopa; co-codamol = codeine+acetaminophen;
co-dydramol = dihydrocodeine+acetaminophen; co-amilofruse = amiloride+furosemide;
co-beneldopa = benserazide+levodopa; co-phenotrope = atropine+diphenoxylate;
piperacillin-tazobactam = piperacillin+tazobactam; ampicillin-sulbactam = ampicillin+sulbactam;
penicillin g = penicillin g; benzylpenicillin = penicillin g; penicillin v = penicillin v;
phenoxymethylpenicillin = penicillin v; amoxycillin = amoxicillin; polymyxin e = colistin;
gentamycin = gentamicin; sodium cromoglycate = cromolyn; cromoglycate = cromolyn;
cromoglicic acid = cromolyn; disodium cromoglycate = cromolyn; sodium valproate = valproic acid;
valproate = valproic acid; divalproex = valproic acid; dpa = valproic acid;
divalproex sodium = valproic acid; valproate sodium = valproic acid;
semisodium valproate = valproic acid; desferrioxamine = deferoxamine;
desferioxamine = deferoxamine; dimercaprol = dimercaprol; bal = dimercaprol; dmsa = succimer;
d-penicillamine = penicillamine; calcium edta = edetate calcium; ddavp = desmopressin;
adh = vasopressin; antidiuretic hormone = vasopressin; acth = corticotropin;
growth hormone = somatropin; dhea = prasterone; ltg = lamotrigine; cbz = carbamazepine;
phenytoin sodium = phenytoin; dph = phenytoin; diphenylhydantoin = phenytoin; tpa = alteplase;
t-pa = alteplase; tissue plasminogen activator = alteplase; acetaminophen = acetaminophen;
apap = acetaminophen; n-acetylcysteine = acetylcysteine; n-acetyl cysteine = acetylcysteine;
bromocriptin = bromocriptine; ergometrine = ergonovine; methylergometrine = methylergonovine;
pge1 = alprostadil; prostaglandin e1 = alprostadil; pge2 = dinoprostone;
prostaglandin e2 = dinoprostone; salbutamol = albuterol; levosalbutamol = levalbuterol;
paracetamol = acetaminophen; pas sodium = aminosalicylic acid; heparin = heparin;
unfractionated heparin = heparin; dactinomycin = dactinomycin; clavulanate = clavulanic acid;
clavulanate potassium = clavulanic acid; potassium clavulanate = clavulanic acid;
nitroprusside = nitroprusside; sodium nitroprusside = nitroprusside; docusate = docusate;
ubiquinone = ubidecarenone; coenzyme q10 = ubidecarenone; cobalamin = cyanocobalamin;
amphetamine = amphetamine; amfetamine = amphetamine; dexamfetamine = dextroamphetamine;
metamfetamine = methamphetamine; dexamphetamine = dextroamphetamine; lsd = lysergide;
mdma = midomafetamine; thc = dronabinol; ghb = sodium oxybate; pcp = phencyclidine;
heroin = diamorphine
"""
"""Names in use that the registers lack or know as another substance: British and older names,
initials, the words of questions. The left name is what the right one, of a register, is called; a
plus sign joins the ingredients of a combination."""

FORMS = """
junior infant infants children children's pediatric adult forte chewable tablet tablets capsule
capsules caplet caplets gelcap gelcaps drops spray cream ointment gel lotion solution suspension
syrup elixir injection topical ophthalmic otic nasal oral vaginal rectal iv im intravenous kit pen
intensol maintena retard chrono liquid powder patch film shampoo foam emulsion enema lozenge
lozenges xr xl er sr cr la ir dr ec xt cd odt mdi hfa depot inhaler diskus turbuhaler respimat
handihaler flexhaler ellipta respiclick digihaler solostar flexpen kwikpen flextouch
"""
"""Words behind a brand that say its form, strength or release."""
